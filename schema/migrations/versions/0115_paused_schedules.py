"""Bulk operations that pause and resume repeating jobs."""

from schema import online

revision = "0115"
down_revision = "0114"


def upgrade() -> None:
    online.drop_constraint("bulk_operations", "chk_bulk_operations_action")
    online.add_check(
        "bulk_operations",
        "chk_bulk_operations_actions",
        "action IN ('cancel', 'retry', 'reschedule', 'archive', 'pause', 'resume')",
    )
