"""Places: the addresses of the pages of things, by the words of the API. Pure."""

from urllib.parse import quote

_PATHS = {
    "execution": "/console/executions/{}",
    "waiting_execution": "/console/executions/{}",
    "running_execution": "/console/executions/{}",
    "job": "/console/jobs/{}",
    "schedule": "/console/jobs/{}",
    "workflow": "/console/workflows/{}",
    "workflow_node": "/console/workflows/{}",
    "dead_letter": "/console/dead-letters/{}",
    "redrive": "/console/walks#{}",
    "bulk_operation": "/console/walks#{}",
    "endpoint": "/console/endpoints/{}",
    "callback": "/console/endpoints/{}",
    "workflow_definition": "/console/endpoints/{}",
    "payload_spec": "/console/catalogue/payload-specs/{}",
    "config": "/console/catalogue/configs/{}",
    "secret": "/console/catalogue/secrets/{}",
    "notification_rule": "/console/notifications/{}",
    "channel": "/console/notifications/{}",
    "rule": "/console/notifications/{}",
    "routes": "/console/catalogue/routes",
    "breaker": "/console/processes#{}",
    "queue": "/console/processes#queue-{}",
    "worker": "/console/processes#{}",
    "api_key": "/console/keys#{}",
    "grant": "/console/activity/audit",
}


def place_of(kind: str, id_: str) -> str:
    """Return the address of a thing; empty for a kind without a page."""
    return _PATHS.get(kind, "").format(quote(id_, safe=""))
