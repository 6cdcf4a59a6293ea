"""`GET /doctor`: the findings of `flask doctor`, within a bounded time, and without repairs."""

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.features import FEATURES
from app.features.doctor import api as doctor_api
from app.features.doctor import examination
from app.features.doctor.examination import examine
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.function_types import nobody
from app.kernel.processes import worker_lease
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import SAFETY_NETS, Finding
from tests import rows
from tests.integration.client import Api, problem
from tests.integration.command_line import Cli, doctor_findings
from tests.integration.registered import created, one_shot, register

pytestmark = pytest.mark.reflection


def test_answer_has_the_findings_of_the_command_and_repairs_nothing(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    job = created(api, one_shot("over"))["job_id"]
    database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now()"))
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    answer = api.get("/doctor")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    (finding,) = answer.json["findings"]
    assert finding["problem"] == "1 one-shot job is over and not retired"
    assert (finding["check"], finding["fixable"]) == ("jobs", True)
    assert answer.json["unfinished"] == []
    assert finding.items() <= doctor_findings(cli)[finding["problem"]].items()
    assert api.get(f"/jobs/{job}").json["status"] == "ACTIVE"


def test_check_that_would_wait_for_longer_is_named_as_unfinished(api: Api, database: Database) -> None:
    register(api)
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000)
    job = created(api, one_shot("lost"))["job_id"]
    rows.set_status(database, job, "RUNNING")
    database.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '1 hour'"))
    answer = api.get("/doctor").json
    assert (answer["findings"], answer["unfinished"]) == ([], ["lost"])


def test_only_an_administrator_reads_findings(api: Api, database: Database) -> None:
    for scope in (Scope.READ, Scope.JOBS_WRITE):
        problem(Api(api.app, api_keys.create(database, "other", [scope], None)).get("/doctor"), 403, "FORBIDDEN")


def context(database: Database, until: float) -> ChoreContext:
    def is_over() -> bool:
        return time.monotonic() >= until

    return ChoreContext(database, Settings(database_url=""), hint=nobody, stopping=is_over, until=until)


def test_examination_without_time_runs_no_check(database: Database) -> None:
    wanted = examination.checks(FEATURES)
    done = examine(context(database, time.monotonic()), wanted)
    assert (done.findings, len(done.unfinished)) == ([], len(wanted))
    assert done.unfinished[-len(SAFETY_NETS) :] == ["exhausted", "unretiredjobs", "stalled", "onhold", "notheld"]


def test_check_that_lasts_too_long_is_unfinished_and_keeps_its_findings(database: Database) -> None:
    until = time.monotonic() + 0.05

    def slow(_context: ChoreContext) -> Iterator[Finding]:
        yield Finding("slow", "found", "fix")
        while time.monotonic() < until:
            pass

    done = examine(context(database, until), [slow])
    assert ([each.problem for each in done.findings], done.unfinished) == (["found"], ["slow"])
    assert doctor_api.MAX_SECONDS <= 5
