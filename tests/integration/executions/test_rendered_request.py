"""GET /executions/{id}/request: the request of the next attempt, without its secrets."""

from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.integration.client import Api
from tests.integration.executions.worker import WORKER, claim
from tests.integration.registered import created, register

SPEC = {
    "url": "{{config.base}}/charge/{{input.order}}",
    "headers": {"Authorization": "Bearer {{secret.pay_key}}"},
    "body_template": {"order": "{{input.order}}", "twice": "{{secret.pay_key}}{{secret.other}}"},
}


def make(api: Api, order: str = "o-1") -> str:
    for name, value in (("pay_key", "hunter2"), ("other", "swordfish")):
        assert api.post("/secrets", {"name": name, "value": value}).status_code == 201
    assert api.post("/configs", {"name": "pay", "values": {"base": "https://pay.example"}}).status_code == 201
    register(api, "charge", spec=SPEC, config="pay")
    job = created(
        api, {"endpoint": "charge", "trigger": "IMMEDIATE", "idempotency_key": "k", "input": {"order": order}}
    )
    return str(job["execution"]["execution_id"])


def test_request_is_rendered_with_names_for_secrets(api: Api, database: Database) -> None:
    execution_id = make(api)
    answer = api.get(f"/executions/{execution_id}/request")
    assert answer.status_code == 200
    assert "hunter2" not in answer.get_data(as_text=True)
    assert "swordfish" not in answer.get_data(as_text=True)
    found = answer.json
    assert found["spec"]["url"] == "https://pay.example/charge/o-1"
    assert found["spec"]["headers"] == {"Authorization": "Bearer [secret pay_key]"}
    assert found["spec"]["body_template"] == {"order": "o-1", "twice": "[secret pay_key][secret other]"}
    assert (found["idempotency_key"], found["secrets"], found["config"]) == (execution_id, ["other", "pay_key"], "pay")
    assert (found["endpoint_version"], found["newest_version"], found["fault"]) == (1, 1, None)
    assert found["config_revision"] is None


def test_attempts_keep_their_config_and_version(api: Api, database: Database) -> None:
    execution_id = make(api)
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    claim(database)
    etag = api.get("/configs/pay").headers["ETag"]
    changed = api.put("/configs/pay", {"values": {"base": "https://new.example"}}, headers={"If-Match": etag})
    assert changed.status_code == 200, changed.json
    found = api.get(f"/executions/{execution_id}/request").json
    assert found["spec"]["url"] == "https://pay.example/charge/o-1"
    assert isinstance(found["config_revision"], int)


def test_request_that_cannot_be_rendered_has_a_fault(api: Api, database: Database) -> None:
    execution_id = make(api)
    database.fetch(text("UPDATE jobs SET input = '{}' WHERE endpoint = 'charge'"))
    found = api.get(f"/executions/{execution_id}/request").json
    assert found["spec"] is None
    assert "order" in found["fault"]


def test_unknown_execution_is_404(api: Api) -> None:
    assert api.get("/executions/exec_unknown/request").status_code == 404
