"""The list of executions: contents under every filter, and the index of each read."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from sqlalchemy import ClauseElement, Executable, Select, text
from sqlalchemy.ext.compiler import compiles

from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.executions.execution_records import Execution
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import executions_page, page_of_executions
from schema.states import FINAL, ExecutionStatus
from tests import rows
from tests.cases import choice_of, each_case
from tests.waiting import HUNG_SECONDS

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 140
PAGE = 8
CHANGE = text(
    """
    UPDATE executions AS e
       SET status = u.status, created_at = u.created_at, job_id = u.job_id, endpoint = u.endpoint, attempt_count = 1,
           worker_id = 'w', started_at = u.created_at, idempotency_key = e.execution_id,
           completed_at = CASE WHEN u.status IN ('SUCCESS', 'FAILED', 'CANCELLED') THEN u.created_at END
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:statuses AS TEXT[]), CAST(:jobs AS TEXT[]), CAST(:endpoints AS TEXT[]),
                  CAST(:instants AS TIMESTAMPTZ[])) AS u (execution_id, status, job_id, endpoint, created_at)
     WHERE e.execution_id = u.execution_id
    """
)


@pytest.fixture
def mixed(database: Database) -> list[Execution]:
    """Executions of all statuses, two endpoints and four jobs; many have the same creation time."""
    statuses = list(ExecutionStatus)
    rows.add_endpoint(database, "other")
    ids = [*rows.add_executions(database, MANY // 2), *rows.add_executions(database, MANY // 2, endpoint="other")]
    jobs = [rows.execution(database, ids[n]).job_id for n in (0, 1, MANY // 2, MANY // 2 + 1)]
    job_numbers = [2 * (n >= MANY // 2) + (n // 7) % 2 for n in range(MANY)]
    params = {
        "ids": ids,
        "statuses": [statuses[n % len(statuses)].value for n in range(MANY)],
        "jobs": [jobs[number] for number in job_numbers],
        "endpoints": ["target" if number < 2 else "other" for number in job_numbers],
        "instants": [BEGAN + timedelta(hours=n * 11 % MANY // 9) for n in range(MANY)],
    }
    database.fetch(CHANGE, params)
    database.fetch(text("UPDATE executions SET queue = 'bulk' WHERE execution_id = ANY (:ids)"), {"ids": ids[::5]})
    database.fetch(text("UPDATE executions SET worker_id = 'v' WHERE execution_id = ANY (:ids)"), {"ids": ids[::3]})
    return [Execution.from_row(row) for row in database.fetch(text("SELECT *, NULL AS last_error FROM executions"))]


def filters(all_: list[Execution]) -> Iterator[ExecutionFilter]:
    jobs = [None, *sorted({execution.job_id for execution in all_})[:2], "job_none"]
    afters, befores = [None, BEGAN + timedelta(hours=3)], [None, BEGAN + timedelta(hours=9)]
    for status, endpoint, job_id in product([None, *ExecutionStatus], [None, "other", "none"], jobs):
        for after, before in product(afters, befores):
            for queue, worker_id in ((None, None), ("bulk", None), (None, "v"), ("bulk", "v")):
                yield ExecutionFilter(
                    statuses=() if status is None else (status,),
                    endpoint=endpoint,
                    job_id=job_id,
                    queue=queue,
                    worker_id=worker_id,
                    created_after=after,
                    created_before=before,
                )


def is_in(execution: Execution, wanted: ExecutionFilter) -> bool:
    after, before = (
        wanted.created_after or BEGAN - timedelta(days=1),
        wanted.created_before or BEGAN + timedelta(days=9),
    )
    equal = (
        (execution.endpoint, wanted.endpoint),
        (execution.job_id, wanted.job_id),
        (execution.queue, wanted.queue),
        (execution.worker_id, wanted.worker_id),
    )
    in_status = execution.status in (wanted.statuses or ExecutionStatus)
    return in_status and all(want in (None, has) for has, want in equal) and after < execution.created_at < before


def listed(database: Database, wanted: ExecutionFilter) -> list[str]:
    """Read the whole list, page by page."""
    found, request = list[str](), PageRequest(PAGE)
    while True:
        page = page_of_executions(database, wanted, request, seconds=HUNG_SECONDS)
        assert len(page.items) == PAGE or page.next is None
        found += [execution.execution_id for execution in page.items]
        if page.next is None:
            return found
        request = request._replace(after=page.next)


@pytest.mark.sampled
def test_every_filter_lists_its_executions_newest_first_without_gaps_between_pages(
    database: Database, mixed: list[Execution]
) -> None:
    newest = sorted(mixed, key=lambda execution: (execution.created_at, execution.execution_id), reverse=True)
    for wanted in choice_of(list(filters(mixed)), 4):
        assert listed(database, wanted) == [
            execution.execution_id for execution in newest if is_in(execution, wanted)
        ], wanted


class Explained(Executable, ClauseElement):
    """EXPLAIN of a query; the driver binds the same values as for the query."""

    inherit_cache = False

    def __init__(self, query: Select[object]) -> None:
        self.query = query


@compiles(Explained)
def _explain(explained: Explained, compiler: object, **options: object) -> str:
    return f"EXPLAIN {compiler.process(explained.query, **options)}"  # type: ignore[attr-defined]


@pytest.fixture(params=["no statistics", "statistics of an empty queue", "current statistics"])
def history(database: Database, request: pytest.FixtureRequest) -> Database:
    """5,000 successes, then one failure and 3,000 waiting executions; the statistics may be stale or missing."""
    # Autovacuum could otherwise gather statistics between the inserts, which no case describes.
    database.fetch(text("ALTER TABLE executions SET (autovacuum_enabled = false)"))
    rows.add_executions(database, 5_000)
    database.fetch(
        text(
            "UPDATE executions SET status = 'SUCCESS', completed_at = now(), "
            "created_at = now() - random() * INTERVAL '1 day'"
        )
    )
    if request.param == "statistics of an empty queue":
        database.fetch(text("ANALYZE executions"))
    rows.add_executions(database, 3_000)
    rows.add_endpoint(database, "rare")
    (failed, _) = rows.add_executions(database, 2, endpoint="rare")
    params = {"id": failed}
    database.fetch(
        text("UPDATE executions SET status = 'FAILED', completed_at = now() WHERE execution_id = :id"), params
    )
    if request.param == "current statistics":
        database.fetch(text("ANALYZE executions"))
    return database


def index_of(wanted: ExecutionFilter) -> str:
    (status,) = wanted.statuses
    kind = "ended" if status in FINAL else "waits"
    if wanted.job_id is not None:
        return "idx_executions_ended_of_job" if status in FINAL else "idx_executions_open"
    if status is ExecutionStatus.RUNNING:
        return "idx_executions_running_lanes"
    return f"idx_executions_{kind}_of_endpoint" if wanted.endpoint is not None else f"idx_executions_{kind}"


@pytest.mark.postgresql_only
@each_case("condition", [{}, {"endpoint": "rare"}, {"endpoint": "target"}, {"job_id": "job_1"}, {"worker_id": "w"}])
def test_each_status_is_read_by_its_own_index_with_any_statistics(history: Database, condition: dict[str, str]) -> None:
    """The list of one job without statistics is left out: PostgreSQL may sort its few rows instead."""
    is_analysed = history.fetch(text("SELECT true FROM pg_stats WHERE tablename = 'executions' LIMIT 1"))
    if "job_id" in condition and not is_analysed:
        return
    for status in ExecutionStatus:
        wanted = ExecutionFilter(statuses=(status,), **condition)  # type: ignore[arg-type]
        found = "\n".join(row[0] for row in history.fetch(Explained(executions_page(wanted, PageRequest()))))
        # The prefix matches two indexes: all endpoints may also be read by the index per endpoint, with a skip scan.
        assert f"using {index_of(wanted)}" in found.replace(" on idx_", " using idx_"), f"{wanted}\n{found}"
        assert "Seq Scan on executions" not in found, f"{wanted}\n{found}"
