"""Trials of redrives: some letters first, the rest only if enough of them succeed."""

from schema import online

revision = "0117"
down_revision = "0116"


def upgrade() -> None:
    for name, type_ in (
        ("trial", "BIGINT"),
        ("least", "BIGINT"),
        ("trial_executions", "JSONB"),
        ("trial_result", "TEXT"),
        ("trial_passed_at", "TIMESTAMPTZ"),
    ):
        online.add_column("redrives", name, type_)
