"""te_enqueue anew: an execution that it creates keeps its result for as long as its endpoint says."""

from importlib import import_module

revision = "0029"
down_revision = "0028"

CHANGES = (
    (
        "created_at, followed)\n    SELECT v_execution",
        "created_at, followed, result_retention_ms)\n    SELECT v_execution",
    ),
    ("v_now, j.followed\n", "v_now, j.followed, v_endpoint.result_retention_ms\n"),
)


def upgrade() -> None:
    """Replace the function; it works in the transactions that call it meanwhile, before or after."""
    before = import_module("schema.migrations.versions.0026_callbacks")
    before._replace_te_enqueue((*before.CHANGES, *CHANGES))  # noqa: SLF001 - the text is made there


def downgrade() -> None:
    """Replace it by the one before."""
    before = import_module("schema.migrations.versions.0026_callbacks")
    before._replace_te_enqueue(before.CHANGES)  # noqa: SLF001
