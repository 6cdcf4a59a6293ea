"""Compensation of workflows: its states, and whether a failed node asks for it."""

from schema import online

revision = "0112"
down_revision = "0111"

_STATUSES = (
    "('RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'COMPENSATING', 'COMPENSATED', "
    "'COMPENSATION_FAILED')"
)


def upgrade() -> None:
    online.add_column("workflows", "compensates", "BOOLEAN DEFAULT false NOT NULL")
    online.drop_constraint("workflows", "chk_workflows_status")
    online.add_check("workflows", "chk_workflows_statuses", f"status IN {_STATUSES}")
    online.drop_constraint("workflows", "chk_workflows_on_failure")
    online.add_check("workflows", "chk_workflows_on_failures", "on_failure IN ('stop', 'continue', 'compensate')")
    online.drop_constraint("workflows", "chk_workflows_ended")
    online.add_check(
        "workflows",
        "chk_workflows_is_over",
        "(status NOT IN ('RUNNING', 'PAUSED', 'STOPPING', 'COMPENSATING')) = (ended_at IS NOT NULL)",
    )
    online.drop_constraint("workflow_events", "chk_workflow_events_from")
    online.add_check("workflow_events", "chk_workflow_events_from_status", f"from_status IN {_STATUSES}")
    online.drop_constraint("workflow_events", "chk_workflow_events_to")
    online.add_check("workflow_events", "chk_workflow_events_to_status", f"to_status IN {_STATUSES}")
