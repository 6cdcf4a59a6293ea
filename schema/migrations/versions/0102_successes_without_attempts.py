"""Successes that have no row in `attempts`: instant of their event.

Web processes of the release before do not read such successes as attempts and events; upgrade.md says when it matters.
"""

from schema import online

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    online.add_column("executions", "recorded_at", "TIMESTAMPTZ")
    online.create_index(
        "idx_executions_recorded",
        "executions",
        ["recorded_at"],
        where="recorded_at IS NOT NULL",
        leads_with_time=True,
    )
