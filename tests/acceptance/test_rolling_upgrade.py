"""Rolling upgrade under load: the previous release and this release share one database, and no request fails.

The previous release is the commit before the newest schema revision, or HEAD while the baseline is the only revision.
An additional revision then changes tables in use.
"""

import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel import db
from app.kernel.db import Database
from schema import migrate
from tests import rows
from tests.acceptance.conftest import client_of
from tests.acceptance.installing import ROOT, environment, libraries_of
from tests.acceptance.load import Load, check_deliveries
from tests.definitions import definitions
from tests.history import REVISIONS, commit_before, extract
from tests.parts import PACKAGES
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

TICK = timedelta(milliseconds=500)
TOKEN = "known to both releases"
NEXT_REVISION = """
from schema import online, schema_version
revision, down_revision = "9001", schema_version.head()
def upgrade():
    for table, key in (("jobs", "job_id"), ("executions", "execution_id"), ("endpoints", "name")):
        online.add_column(table, "added", "BIGINT DEFAULT 0 NOT NULL")
        online.create_index(f"idx_{table}_added", table, ["added", key])
        online.add_check(table, f"chk_{table}_added", "added >= 0")
"""


@pytest.fixture
def next_revision(tmp_path: Path) -> Path:
    """A folder with a revision that follows the newest revision."""
    folder = tmp_path / "next"
    folder.mkdir()
    (folder / "9001_next.py").write_text(NEXT_REVISION)
    return folder


@pytest.fixture(scope="module")
def python_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the previous release's packages and the libraries of this environment."""
    baseline, *later = sorted(path.name for path in (ROOT / REVISIONS).glob("[0-9]*.py"))
    before = commit_before(later[-1]) if later else "HEAD"
    python = environment(tmp_path_factory.mktemp("before"))
    packages = libraries_of(python)
    extract(before, [*PACKAGES], packages)
    found = {path.name for path in (packages / REVISIONS).glob("[0-9]*.py")}
    assert baseline in found
    assert found.isdisjoint(later[-1:])
    # These paths come last, so the packages of the previous release hide those of this checkout.
    libraries = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (packages / "libraries.pth").write_text(libraries)
    return python


@pytest.fixture
def before(python_before: Path, empty_database_url: str, tmp_path: Path) -> Iterator[Stack]:
    """The processes of the previous release, over an empty database."""
    empty = tmp_path / "empty"
    empty.mkdir()
    stack = Stack(
        database_url=empty_database_url,
        commands={},
        env={"PYTHONPATH": ""},
        logs=tmp_path / "before",
        cwd=empty,
        python=python_before,
    )
    yield stack
    stack.stop(timeout=0)


@pytest.fixture
def after(before: Stack, tmp_path: Path) -> Iterator[Stack]:
    """The processes of this release, with the database and the encryption key of the previous release."""
    key = {"TE_SECRET_ENCRYPTION_KEY": before.env["TE_SECRET_ENCRYPTION_KEY"]}
    stack = Stack(database_url=before.database_url, commands={}, env=key, logs=tmp_path / "after")
    yield stack
    stack.stop(timeout=0)


@pytest.fixture
def database(before: Stack) -> Iterator[Database]:
    database = db.connect(before.database_url, pool_size=5, application_name="te-test")
    yield database
    database.close()


def add_endpoint(api: Api, receiver: Receiver, name: str, behaviour: str = "ok") -> str:
    """Register an endpoint that sends the secret and retries every second, and return its path."""
    path = f"/{behaviour}/upgraded-{name}"  # all tests share one receiver
    # The held delivery gets its response after all steps, which can take longer than 30 s on a busy machine.
    spec = {"url": receiver.base_url + path, "headers": {"X-Token": "{{secret.token}}"}, "timeout_ms": 180_000}
    policy = {"max_attempts": 100, "backoff": "fixed", "initial_delay_ms": 1000}
    body = {"name": name, "type": "HTTP", "spec": spec, "retry_policy": policy, "breaker": "off"}
    api.post("/endpoints", body)
    return path


def create(api: Api, endpoint: str) -> tuple[int, str]:
    """Create the job of an endpoint, and return the status of the response and the execution."""
    job = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": f"one-{endpoint}", "input": {}}
    answer = api.request("POST", "/jobs", json=job)
    return answer.status_code, answer.json()["execution"]["execution_id"]


def test_rolling_upgrade_loses_and_refuses_nothing(
    before: Stack, after: Stack, database: Database, database_url: str, receiver: Receiver, next_revision: Path
) -> None:
    before.run(programs.MIGRATE)
    for process in (before.web, before.worker, before.scheduler):
        process()
    api = client_of(before, database)
    api.post("/secrets", {"name": "token", "value": TOKEN})
    paths = [add_endpoint(api, receiver, name) for name in ("before", "ticks")]
    held, broken = add_endpoint(api, receiver, "held", "held"), add_endpoint(api, receiver, "failing", "broken")
    every = {"trigger": "INTERVAL", "every": "500ms", "catch_up": "all", "max_catch_up": None}
    ticking = api.post("/jobs", {"endpoint": "ticks", "idempotency_key": "ticks", "input": {}} | every)["job_id"]
    (_, held_execution), (_, failing) = create(api, "held"), create(api, "failing")
    with Load(api, "before") as old_clients:
        after.run(programs.MIGRATE)
        check_schema_equals_a_new_database(database, database_url)
        assert migrate.upgrade(before.database_url, folders=[next_revision]) == "9001"
        old_clients.wait_for_more(20)
        after.web()
        new_api = client_of(after, database)
        paths.append(add_endpoint(new_api, receiver, "after"))
        with Load(new_api, "after") as new_clients:
            receiver.wait_for(20, path=paths[2])  # from the new API, by the old worker
            paths.append(add_endpoint(new_api, receiver, "crossing"))
            check_releases_find_each_others_rows(api, new_api, failing)
            after.worker()
            after.scheduler()
            old_clients.wait_for_more(50)
            before.process("worker-1").send(signal.SIGTERM)
            receiver.release(held)  # the delivery in flight of the old worker
            assert before.terminate("worker-1") == 0
            assert before.terminate("scheduler-1") == 0
            sent = len(receiver.wait_for(0, path=paths[0]))
            receiver.wait_for(sent + 20, path=paths[0])  # from the old API, by the new worker
            ticks = len(receiver.wait_for(0, path=paths[1]))
            receiver.wait_for(ticks + 3, path=paths[1])
            receiver.release(broken)
    assert before.terminate("web") == 0
    new_api.post(f"/jobs/{ticking}/cancel")
    for clients, path in ((old_clients, paths[0]), (new_clients, paths[2])):
        assert (clients.refusals, clients.broken) == ([], 0)
        check_deliveries(database, receiver, path, clients.accepted)
    check_ticks(database, ticking)
    check_executions_in_flight(database, held_execution, failing)
    received = [request for path in (*paths, held, broken) for request in receiver.wait_for(1, path=path)]
    assert [request for request in received if request.headers.get("X-Token") != TOKEN] == []


def check_schema_equals_a_new_database(upgraded: Database, new_url: str) -> None:
    """The upgraded database of the previous release has the schema of a new database."""
    new = db.connect(new_url, pool_size=1, application_name="te-test")
    if not upgraded.is_cockroach:
        assert set(definitions(upgraded.engine)) == set(definitions(new.engine))
    new.close()


def check_releases_find_each_others_rows(old: Api, new: Api, failing: str) -> None:
    """A repeated creation returns the job of the first creation in either release."""
    assert create(new, "failing") == (200, failing)
    made, execution = create(new, "crossing")
    assert (made, create(old, "crossing")) == (201, (200, execution))
    for api in (old, new):
        for execution_id in (failing, execution):
            api.get(f"/executions/{execution_id}")
        assert {endpoint["name"] for endpoint in api.items("/endpoints")} >= {"before", "after"}


def check_executions_in_flight(database: Database, held_execution: str, failing: str) -> None:
    """The old worker has finished its delivery, and the new worker has retried the failed execution."""
    for execution in (held_execution, failing):
        eventually(lambda execution_id=execution: rows.execution(database, execution_id).status == "SUCCESS")  # type: ignore[misc]
    assert len(rows.attempts(database, held_execution)) == 1
    tried = rows.attempts(database, failing)
    assert [attempt.attempt_number for attempt in tried] == list(range(1, len(tried) + 1))
    assert len({attempt.worker_id for attempt in tried}) == 2, "the attempts are not from one worker of each release"
    assert [attempt.status for attempt in tried] == [*["FAILED"] * (len(tried) - 1), "SUCCESS"]


def check_ticks(database: Database, job_id: str) -> None:
    """Each tick has one execution, without a gap; executions before the cancellation have succeeded."""
    query = text("SELECT scheduled_at, status FROM executions WHERE job_id = :job_id ORDER BY scheduled_at")

    def final() -> list[Any]:
        found = database.transact(lambda connection: connection.execute(query, {"job_id": job_id}).all())
        return list(found) if all(row.status in {"SUCCESS", "CANCELLED"} for row in found) else []

    ticks = eventually(final, what="the final status of all ticks")
    assert {later.scheduled_at - earlier.scheduled_at for earlier, later in pairwise(ticks)} == {TICK}
    assert "CANCELLED" not in {tick.status for tick in ticks[:-20]}
