"""Endpoints of the type ACTOR: functions of the user's own processes."""

from schema import online

revision = "0114"
down_revision = "0113"

_TYPES = "endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION', 'WORKFLOW', 'ACTOR')"


def upgrade() -> None:
    for table in ("jobs", "endpoints", "endpoint_versions"):
        online.add_check(table, f"chk_{table}_type_known", _TYPES)
        online.drop_constraint(table, f"chk_{table}_endpoint_type")
