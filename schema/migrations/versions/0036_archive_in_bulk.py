"""Bulk operations archive dead letters: one more action."""

from schema import online

revision = "0036"
down_revision = "0035"

BEFORE = "action IN ('cancel', 'retry', 'reschedule')"
AFTER = "action IN ('cancel', 'retry', 'reschedule', 'archive')"


def upgrade() -> None:
    """Widen the check; each step may be repeated."""
    online.add_check("bulk_operations", "chk_bulk_operations_one_action", AFTER)
    online.drop_constraint("bulk_operations", "chk_bulk_operations_action")


def downgrade() -> None:
    """Narrow it again; raises the database's error where there are such operations."""
    online.add_check("bulk_operations", "chk_bulk_operations_action", BEFORE)
    online.drop_constraint("bulk_operations", "chk_bulk_operations_one_action")
