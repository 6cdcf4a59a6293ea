"""te_enqueue anew: no error repeats a long name of the caller's, neither of an endpoint nor of a field of the input."""

from importlib import import_module

revision = "0035"
down_revision = "0034"

BEFORE = "    WHEN jsonb_typeof(v_input) <> 'object' THEN"
NAME = (
    "    WHEN char_length(te_enqueue.endpoint) NOT BETWEEN 1 AND 128 THEN 'endpoint: must have 1 to 128 characters'\n"
)
CHANGES = (
    (BEFORE, NAME + BEFORE),
    ("'/input/' || f.field || ': is no", "'/input/' || left(f.field, 128) || ': is no"),
)


def upgrade() -> None:
    """Replace the function; it works in the transactions that call it meanwhile, before or after."""
    _replace(*CHANGES)


def downgrade() -> None:
    """Replace it by the one before."""
    _replace()


def _replace(*changes: tuple[str, str]) -> None:
    bounds = import_module("schema.migrations.versions.0034_bounds_of_te_enqueue")
    bounds._replace(*bounds.CHANGES, *changes)
