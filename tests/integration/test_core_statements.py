"""Check of every statement that is built with SQLAlchemy Core: PostgreSQL prepares it, and no CockroachDB rule breaks.

The source is searched for the functions that build statements. A function that these requests do not reach fails here.
"""

import ast
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg2
import pytest
from sqlalchemy import ClauseElement, Connection, TextClause, event
from sqlalchemy.dialects import postgresql
from sqlalchemy_cockroachdb.psycopg2 import CockroachDBDialect_psycopg2

from app.features.dead_letters.letter_list import LetterFilter, count_letters, letters_of
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest, Position
from app.kernel.formats import EPOCH
from app.queue.jobs.job_list import JobFilter, ListBounds, page_of_jobs
from app.queue.jobs.node_lists import jobs_of_workflow
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import count_selected
from schema.states import ExecutionStatus, JobStatus, Trigger
from tests import rows
from tests.integration.client import Api
from tests.integration.registered import created, cron, http_endpoint, one_shot, register_all
from tests.sql_lint import refused, structural_breaches, unlisted_functions
from tests.statements import BUILT, DELETE, INSERT, REGISTRY, tables_of

ROOT = Path(__file__).parents[2]
CONSTRUCTORS = {"select", "insert", "update", "delete"}
CORE = {"sqlalchemy", "sqlalchemy.dialects.postgresql"}
Function = tuple[str, str]
# PREPARE needs parameters numbered $1, $2, ...
DIALECTS = [postgresql.dialect(paramstyle="numeric_dollar"), CockroachDBDialect_psycopg2(paramstyle="numeric_dollar")]


def builders() -> set[Function]:
    """Return the functions of the product that call one of SQLAlchemy's constructors."""
    found = set()
    for path in (ROOT / "app").rglob("*.py"):
        file = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module in CORE]
        names = {alias.name for node in imports for alias in node.names} & CONSTRUCTORS
        if file.startswith("app/dev/") or not names:
            continue
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            if any(_constructor(called) in names | {"postgresql.insert"} for called in calls):
                found.add((file, function.name))
    return found


def _constructor(called: ast.expr) -> str:
    return ast.unparse(called) if isinstance(called, ast.Name | ast.Attribute) else ""


class Recorder:
    """Record of the called functions, and of the executed statements that were built with Core."""

    def __init__(self) -> None:
        self.functions: set[Function] = set()
        self.built: list[ClauseElement] = []

    def record_call(self, frame: FrameType, event_name: str, _argument: object) -> None:
        if event_name == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/app/"):
            self.functions.add((frame.f_code.co_filename.removeprefix(f"{ROOT}/"), frame.f_code.co_name))

    def record_statement(self, _connection: Connection, clause: ClauseElement, *_more: Any) -> None:
        if not isinstance(clause, TextClause):
            self.built.append(clause)


@pytest.fixture
def recorder(database: Database) -> Iterator[Recorder]:
    recorder = Recorder()
    event.listen(database.engine, "before_execute", recorder.record_statement)
    sys.setprofile(recorder.record_call)
    yield recorder
    sys.setprofile(None)


def filter_executions_by_their_jobs(api: Api) -> None:
    """Also check a payload spec, which reads the inputs of jobs."""
    created(api, one_shot("k5", endpoint="checked", input={}))
    assert api.post("/payload-specs/second/check", {"schema": {"type": "object"}}).status_code == 200
    keyed = {"endpoint": "target", "idempotency_key": "k1"}
    for filters in (keyed, {"name": "report", "labels": "team=a"}, {"error_type": "HTTP_ERROR"}):
        assert api.get("/executions", **filters).status_code == 200, filters


def send_all_requests(api: Api, database: Database) -> None:
    """Read each list with all its filters and a cursor, and make each simple change."""
    register_all(api)
    for name in ("second", "third"):
        api.post("/payload-specs", {"name": name, "schema": {"type": "object"}})
        api.post("/configs", {"name": name, "values": {}})
        api.post("/secrets", {"name": name, "value": "value-one"})
        api.post("/endpoints", http_endpoint(name))
    api.put("/payload-specs/second", {"schema": {"type": "object", "title": "Changed"}})
    api.put("/configs/second", {"values": {"a": 2}})
    api.put("/secrets/second", {"value": "value-two"})
    api.put("/endpoints/second", http_endpoint("second", retry_policy={"max_attempts": 2}))
    rule = {"events": ["execution.failed"], "channels": ["second"], "all": True}
    for name in ("one", "two"):
        api.post("/notification-rules", {"name": name} | rule)
    api.put("/notification-rules/one", rule)
    assert api.delete("/notification-rules/two").status_code == 204
    api.send("PATCH", "/endpoints/second", json={"limits": {"max_in_flight": 1}})
    assert api.post("/endpoints", http_endpoint("checked", payload_spec="second")).status_code == 201
    job = created(api, cron(name="report", labels={"team": "a"}))
    job_id = api.put(f"/jobs/{job['job_id']}", {"cron": "0 8 * * *"}).json["job_id"]
    one = created(api, one_shot("k1"))
    created(api, one_shot("k2"))
    api.post("/jobs", one_shot("k1"))
    assert api.post("/jobs", one_shot("k4", endpoint="targt")).status_code == 404
    api.post("/jobs/batch", {"jobs": [one_shot("k1"), one_shot("k3")]})
    run = api.post(f"/jobs/{job_id}/run").json["execution_id"]
    execution = one["execution"]["execution_id"]
    for number in (1, 2):
        rows.add_attempt(database, execution, number, "FAILED", error={"type": "HTTP_ERROR", "message": "503"})
        rows.add_log(database, execution, number, "INFO")
    letters = [rows.add_letter(database) for _ in range(2)]
    wanted = {"endpoint": "target", "error_type": "HTTP_ERROR", "labels": {"team": "a"}} | {
        "failed_after": "2026-01-01T00:00:00Z",
        "failed_before": "2100-01-01T00:00:00Z",
    }
    assert api.post("/redrives/preview", {"wanted": wanted}).status_code == 200
    redrive_id = api.post("/redrives", {"wanted": wanted}).json["redrive_id"]
    assert api.get(f"/redrives/{redrive_id}").status_code == 200
    bulk_filter = {"endpoint": "target", "queue": "http", "limit_key": "a", "job_id": "job_a", "name": "report"} | {
        "labels": {"team": "a"},
        "idempotency_key_prefix": "k",
        "created_after": "2026-01-01T00:00:00Z",
        "scheduled_after": "2026-01-01T00:00:00Z",
        "scheduled_before": "2100-01-01T00:00:00Z",
    }
    for body in (
        {"action": "retry", "wanted": bulk_filter},
        {"action": "cancel", "if_running": "request", "wanted": {}, "all": True},
        {"action": "cancel", "if_running": "request", "wanted": bulk_filter},
    ):
        assert api.post("/bulk-operations/preview", body).status_code == 200
        operation_id = api.post("/bulk-operations", body).json["operation_id"]
        assert api.get(f"/bulk-operations/{operation_id}").status_code == 200
    assert api.post("/workflows", {"name": "w", "labels": {"team": "a"}, "nodes": [{"name": "a"}]}).status_code == 201
    filter_executions_by_their_jobs(api)
    letters_of(database, execution)
    between = {
        "created_after": (rows.database_now(database) - timedelta(hours=1)).isoformat(),
        "created_before": (rows.database_now(database) + timedelta(hours=1)).isoformat(),
    }
    for path, filters in {
        "/payload-specs": {},
        "/configs": {},
        "/secrets": {},
        "/endpoints": {},
        "/jobs": {"trigger": "IMMEDIATE", "status": "ACTIVE", "endpoint": "target", "queue": "bulk"} | between,
        f"/jobs/{job_id}/versions": {},
        f"/jobs/{job_id}/executions": {"endpoint": "target", "status": "QUEUED"},
        "/executions": {"endpoint": "target", "status": "QUEUED", "queue": "http"} | between,
        f"/executions/{execution}/attempts": {},
        f"/executions/{execution}/logs": {"level": "INFO", "attempt_number": 1},
        "/redrives": {},
        "/notification-rules": {},
        "/notification-rules/one/messages": {},
        "/bulk-operations": {},
        "/workflows": {"status": "RUNNING", "name": "w", "labels": "team=a"} | between,
        "/dead-letters": {"endpoint": "target", "error_type": "HTTP_ERROR", "labels": "team=a", "state": "open"},
        "/audit": {"actor": "test", "resource_type": "config"},
    }.items():
        for query in ({}, filters):
            page = api.get(path, limit=1, **query)
            assert page.status_code == 200, (path, page.get_data(as_text=True))
            if page.json["cursor"]:
                assert api.get(path, limit=1, cursor=page.json["cursor"], **query).status_code == 200
    assert api.get("/jobs", name="report", labels="team=a", limit=1).status_code == 200
    assert api.get("/executions", execution_id=execution, endpoint="target", status="QUEUED").status_code == 200
    assert api.get("/dead-letters", letter_id=letters[0], endpoint="target", state="open").status_code == 200
    for path in (
        f"/jobs/{job_id}",
        f"/executions/{run}",
        f"/dead-letters/{letters[0]}",
        "/endpoints/second",
        "/configs/second",
        "/secrets/second",
    ):
        assert api.get(path).status_code == 200
    assert api.get("/executions/exec_none/logs").status_code == 404
    for path in ("endpoints", "payload-specs", "configs", "secrets"):
        assert api.delete(f"/{path}/third").status_code == 204


def read_jobs_in_chunks_of_one_row(database: Database) -> None:
    """Read jobs by the statements that a list needs only where its first chunk does not fill the page."""
    bounds = ListBounds(stride=1)
    for wanted in (
        JobFilter(status=JobStatus.ACTIVE, trigger=Trigger.IMMEDIATE, endpoint="target", queue="bulk"),
        JobFilter(name="report", labels={"team": "a"}),
    ):
        page_of_jobs(database, wanted, PageRequest(limit=1), bounds)
    for after in (None, Position(EPOCH, "1-0")):
        assert jobs_of_workflow(database, "wf_none", PageRequest(limit=1, after=after)).items == []


def count_rows_behind_a_sample(database: Database) -> None:
    """Count as the preview of an operation on more rows than its sample does."""
    after = Position(EPOCH, "")
    assert count_letters(database, LetterFilter(endpoint="target", labels={"team": "a"}), after, 9) is not None
    wanted = ExecutionFilter(statuses=[ExecutionStatus.QUEUED], endpoint="target", queue="http")
    assert count_selected(database, wanted, after, 9) is not None


def lose_the_next_answer(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit the next transaction, then raise as if the connection broke: the retry reads the committed rows."""
    dialect: Any = database.engine.dialect
    commit = dialect.do_commit

    def commit_and_lose_the_answer(connection: Any) -> None:
        commit(connection)
        monkeypatch.undo()
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", commit_and_lose_the_answer)


@pytest.mark.postgresql_only
def test_every_statement_built_with_core_is_valid_on_both_databases(
    api: Api, database: Database, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_all_requests(api, database)
    read_jobs_in_chunks_of_one_row(database)
    count_rows_behind_a_sample(database)
    for path, body in (("/endpoints", http_endpoint("fourth")), ("/configs", {"name": "fourth", "values": {}})):
        lose_the_next_answer(database, monkeypatch)
        assert api.post(path, body).status_code == 201
    sys.setprofile(None)
    assert builders() - recorder.functions == set()
    texts = {
        str(clause.compile(dialect=dialect, compile_kwargs={"render_postcompile": True}))
        for clause in recorder.built
        for dialect in DIALECTS
    }
    assert len(texts) > 40
    registered = [clause.text for clause in REGISTRY.values()]
    for verb in (INSERT, DELETE):
        assert BUILT[verb] <= tables_of(verb, texts) <= BUILT[verb] | tables_of(verb, registered)
    with database.engine.connect() as connection:
        for number, sql in enumerate(sorted(texts)):
            assert (refused(sql), structural_breaches(sql), unlisted_functions(sql)) == ([], [], set()), sql
            connection.exec_driver_sql(f"PREPARE checked_{number} AS {sql}".replace("%", "%%"))
