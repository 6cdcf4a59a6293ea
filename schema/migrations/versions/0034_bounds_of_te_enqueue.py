"""te_enqueue anew: it refuses what the API refuses of an input, nested too deep or with numbers beyond a double.

No process can read what is nested deeper than its stack: one such job stops the claims and the lists of all.
"""

from importlib import import_module

revision = "0034"
down_revision = "0033"

# The levels are those of app.web.http.body: with the body around it, an input has 100.
BOUNDS = """input: must have at most 1048576 bytes'
    WHEN jsonb_path_exists(v_input, 'strict $.**{{100}}') THEN 'input: must be nested no deeper than 100 levels'
    WHEN jsonb_path_exists(v_input, 'strict $.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)') THEN
      'input: a number is too large'
"""
CHANGES = (("input: must have at most 1048576 bytes'\n", BOUNDS),)


def upgrade() -> None:
    """Replace the function; it works in the transactions that call it meanwhile, before or after."""
    _replace(*CHANGES)


def downgrade() -> None:
    """Replace it by the one before."""
    _replace()


def _replace(*changes: tuple[str, str]) -> None:
    callbacks = import_module("schema.migrations.versions.0026_callbacks")
    results = import_module("schema.migrations.versions.0029_results_of_te_enqueue")
    callbacks._replace_te_enqueue((*callbacks.CHANGES, *results.CHANGES, *changes))  # noqa: SLF001 - it makes the text
