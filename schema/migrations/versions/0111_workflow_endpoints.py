"""Endpoints of the type WORKFLOW: their executions are workflows."""

from schema import online

revision = "0111"
down_revision = "0110"

_TYPES = "endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION', 'WORKFLOW')"
_COLUMNS = {
    "execution_id": "TEXT",
    "attempt": "BIGINT",
    "endpoint": "TEXT",
    "endpoint_version": "BIGINT",
    "parent_id": "TEXT",
    "parent_node": "BIGINT",
    "parent_item": "BIGINT",
    "depth": "BIGINT DEFAULT 1 NOT NULL",
    "forwarded": "TEXT",
}
_CHECKS = {
    "jobs": "chk_endpoint_type",
    "endpoints": "chk_endpoint_type",
    "endpoint_versions": "chk_endpoint_versions_type",
}


def upgrade() -> None:
    for table, old in _CHECKS.items():
        online.add_check(table, f"chk_{table}_endpoint_type", _TYPES)
        online.drop_constraint(table, old)
    for name, definition in _COLUMNS.items():
        online.add_column("workflows", name, definition)
    online.create_index(
        "idx_workflows_parent",
        "workflows",
        ["parent_id", "created_at", "workflow_id"],
        where="parent_id IS NOT NULL",
    )
    online.create_index(
        "idx_executions_workflow_requests",
        "executions",
        ["execution_id"],
        where="endpoint_type = 'WORKFLOW' AND status = 'RUNNING' AND cancel_requested_at IS NOT NULL",
    )
