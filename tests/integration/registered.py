"""Request bodies and registrations that most tests need, made through the API."""

from datetime import datetime
from typing import Any

from tests.integration.client import Api

SCHEMA = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}
INPUT = {"user_id": "u_1"}


def http_endpoint(name: str = "target", **changes: Any) -> dict[str, Any]:
    spec = {"url": "http://127.0.0.1:9/hook", "method": "POST", "timeout_ms": 5000}
    return {"name": name, "type": "HTTP", "spec": spec} | changes


def register(api: Api, name: str = "target", **changes: Any) -> str:
    """Register an HTTP endpoint."""
    response = api.post("/endpoints", http_endpoint(name, **changes))
    assert response.status_code == 201, response.get_data(as_text=True)
    return name


def register_all(api: Api) -> None:
    """Register an endpoint `target` that uses payload spec `spec`, config `config` and secret `token`."""
    assert api.post("/payload-specs", {"name": "spec", "schema": SCHEMA}).status_code == 201
    assert api.post("/configs", {"name": "config", "values": {"base": "http://127.0.0.1:9"}}).status_code == 201
    assert api.post("/secrets", {"name": "token", "value": "s3cret"}).status_code == 201
    spec = {
        "url": "{{config.base}}/hook",
        "method": "POST",
        "headers": {"Authorization": "Bearer {{secret.token}}"},
        "body_template": {"user": "{{input.user_id}}"},
    }
    register(api, payload_spec="spec", config="config", spec=spec)


def one_shot(key: str, **changes: Any) -> dict[str, Any]:
    return {"endpoint": "target", "trigger": "IMMEDIATE", "idempotency_key": key, "input": INPUT} | changes


def delayed(key: str, run_at: datetime | str, **changes: Any) -> dict[str, Any]:
    at = run_at if isinstance(run_at, str) else run_at.isoformat()
    return one_shot(key, trigger="DELAYED", run_at=at, **changes)


def cron(**changes: Any) -> dict[str, Any]:
    return {
        "endpoint": "target",
        "trigger": "CRON",
        "cron": "0 9 * * MON",
        "timezone": "Asia/Kolkata",
        "input": INPUT,
    } | changes


def interval(**changes: Any) -> dict[str, Any]:
    return {"endpoint": "target", "trigger": "INTERVAL", "every": "10s", "input": INPUT} | changes


def created(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    """Create a job and return it."""
    response = api.post("/jobs", body)
    assert response.status_code == 201, response.get_data(as_text=True)
    job: dict[str, Any] = response.json
    return job
