"""`flask doctor`: callbacks to deleted endpoints."""

import pytest

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.integration.client import Api
from tests.integration.command_line import Cli, doctor_findings
from tests.integration.registered import created, interval, one_shot, register

pytestmark = pytest.mark.reflection


def test_callbacks_to_deleted_endpoints_are_reported(api: Api, cli: Cli, database: Database) -> None:
    worker_lease.register(database, worker_id="w1", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000)
    for name in ("target", "kept", "gone", "never"):
        register(api, name)
    every = interval(callbacks={"on_failure": "gone", "on_success": "kept"})
    created(api, every)
    created(api, every | {"endpoint": "kept", "callbacks": {"on_failure": "target"}})
    retired = created(api, every | {"callbacks": {"on_failure": "never"}})["job_id"]
    assert api.post(f"/jobs/{retired}/cancel").status_code == 200
    created(api, one_shot("k", callbacks={"on_success": "gone"}))
    for name in ("gone", "never"):
        assert api.delete(f"/endpoints/{name}").status_code == 204
    ((problem, found),) = doctor_findings(cli).items()
    assert problem.startswith("the endpoint 'gone' was deleted, and 2 jobs would call it back (job_")
    assert (found["check"], found["fixable"]) == ("callbacks", False)
    register(api, "gone")
    assert doctor_findings(cli, expect=0) == {}
