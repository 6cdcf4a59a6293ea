"""Lists of jobs: each filter finds the same jobs as a search of all jobs, and a page reads few rows."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import TextClause, event, text

from app.kernel.db import Database
from app.kernel.db.paging import PageRequest, Position
from app.queue.jobs import job_list
from app.queue.jobs.job_list import JobFilter
from schema.states import JobStatus, Trigger
from tests import rows
from tests.cases import choice_of

# Jobs 1 to n in order of creation, twelve per instant. A one-shot job has one execution, a repeating job three.
MIXTURE = text(
    """
    WITH made AS (
      SELECT n, 'job_' || md5(CAST(n AS TEXT)) AS job_id,
             (ARRAY['IMMEDIATE', 'DELAYED', 'IMMEDIATE', 'CRON', 'INTERVAL'])[1 + n % 5] AS trigger_type,
             (ARRAY['ACTIVE', 'RETIRED', 'PAUSED', 'RETIRED', 'ACTIVE', 'RETIRED', 'RETIRED'])[1 + n % 7] AS status,
             CASE WHEN n % 3 = 0 THEN 'other' ELSE 'target' END AS endpoint,
             CASE WHEN n % 4 = 0 THEN 'name-' || n % 8 END AS name,
             CASE WHEN n % 9 = 0 THEN '{"team": "rare"}' WHEN n % 2 = 0 THEN '{"team": "common"}' END AS labels,
             now() - CAST(:count - n / 12 AS BIGINT) * INTERVAL '1 second' AS created_at
        FROM generate_series(1, CAST(:count AS BIGINT)) AS n),
    stored AS (
      INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, status, name, labels, input,
                        cron_expression, cron_timezone, interval_ms, created_at, paused_at, retired_at)
      SELECT job_id, endpoint, 1, 'HTTP', trigger_type, status, name, CAST(labels AS JSONB), '{}',
             CASE WHEN trigger_type = 'CRON' THEN '* * * * *' END, CASE WHEN trigger_type = 'CRON' THEN 'UTC' END,
             CASE WHEN trigger_type = 'INTERVAL' THEN 1000 END, created_at,
             CASE WHEN status = 'PAUSED' THEN now() END, CASE WHEN status = 'RETIRED' THEN now() END
        FROM made)
    INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard, status,
                            run_at, scheduled_at, created_at, completed_at, attempt_count, worker_id, started_at)
    SELECT 'exec_' || n || '_' || number, job_id, endpoint, 1, 'HTTP', 'http', 0,
           CASE WHEN status = 'RETIRED' THEN 'SUCCESS' WHEN n IN (97, 194, 291) THEN 'RUNNING'
                ELSE (ARRAY['PENDING', 'QUEUED', 'RETRYING'])[1 + n / 24 % 3] END, now(), now(), created_at,
           CASE WHEN status = 'RETIRED' THEN now() END, 1, 'w', now()
      FROM made CROSS JOIN generate_series(1, 3) AS number
     WHERE number = 1 OR trigger_type IN ('CRON', 'INTERVAL')
    """
)
FILTERS: list[Mapping[str, Any]] = [
    dict(itertools.chain.from_iterable(chosen))
    for chosen in itertools.product(
        [[], *([("status", status)] for status in JobStatus)],
        [[], [("trigger", Trigger.DELAYED)], [("trigger", Trigger.INTERVAL)]],
        [[], [("endpoint", "other")], [("endpoint", "none")]],
        [[], [("name", "name-4")], [("labels", {"team": "rare"})], [("labels", {"team": "common"})]],
    )
]


SHORT = job_list.ListBounds(seconds=0.0, stride=25, open=7, few=40)


@pytest.fixture
def mixture(database: Database) -> Database:
    rows.add_endpoint(database, "other")
    database.fetch(MIXTURE, {"count": 300})
    return database


def wanted_of(filters: Mapping[str, Any], stored: list[Any]) -> list[str]:
    names = {"trigger": "trigger_type"}
    return [
        job.job_id
        for job in stored
        if all(
            getattr(job, names.get(name, name)) == value
            for name, value in filters.items()
            if not name.startswith("created")
        )
        and ("created_after" not in filters or job.created_at > filters["created_after"])
        and ("created_before" not in filters or job.created_at < filters["created_before"])
    ]


def listed(database: Database, filters: Mapping[str, Any], limit: int) -> list[str]:
    found, after = list[str](), None
    while True:
        page = job_list.page_of_jobs(database, JobFilter(**filters), PageRequest(limit, after), SHORT)
        found += [job.job_id for job in page.items]
        if page.next is None:
            return found
        assert after is None or page.next < after
        after = page.next


@pytest.mark.sampled
@pytest.mark.parametrize("limit", [12, 200])
@pytest.mark.parametrize("is_bounded", [False, True], ids=["all", "between two instants"])
def test_every_filter_lists_each_job_once_and_in_order(mixture: Database, limit: int, *, is_bounded: bool) -> None:
    stored = list(mixture.fetch(text("SELECT * FROM jobs ORDER BY created_at DESC, job_id DESC")))
    instants = {"created_before": stored[100].created_at, "created_after": stored[200].created_at} if is_bounded else {}
    for filters in choice_of(FILTERS, 3):
        assert listed(mixture, filters | instants, limit) == wanted_of(filters | instants, stored), filters


# A bitmap of index entries is cheap compared with the rows that are read afterwards.
UNCOUNTED = {"Subquery Scan", "CTE Scan", "Bitmap Index Scan"}


class Reads:
    """Counts the rows that statements read, by repeating each statement with EXPLAIN ANALYZE."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine
        self._seen: list[tuple[str, Any, str]] = []
        event.listen(self._engine, "before_cursor_execute", self._note)

    def _note(self, _connection: object, cursor: Any, statement: str, parameters: Any, *_more: object) -> None:
        cursor.execute("SHOW enable_sort")
        self._seen.append((statement, parameters, cursor.fetchone()[0]))

    def total(self) -> int:
        """Return the number of rows that statements have read since the last call."""
        seen = [*self._seen]
        total = sum(int(rows) for statement in seen for rows in self._read(self._plan(*statement)))
        self._seen.clear()
        return total

    def _plan(self, statement: str, parameters: Any, sort: str) -> Mapping[str, Any]:
        with self._engine.connect() as connection:
            connection.execute(
                text("SELECT set_config(name, :sort, true) FROM pg_settings WHERE name ~ '^enable.*sort'"),
                {"sort": sort},
            )
            found = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).scalar_one()
        plan: Mapping[str, Any] = found[0]["Plan"]
        return plan

    def _read(self, node: Mapping[str, Any]) -> Iterator[float]:
        if "Scan" in node["Node Type"] and node["Node Type"] not in UNCOUNTED:
            yield (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for child in node.get("Plans", []):
            yield from self._read(child)


def without_timeout(database: Database, statement: str | TextClause, **params: object) -> None:
    """Run a statement that can exceed the statement timeout on a busy machine."""
    with database.engine.begin() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(statement) if isinstance(statement, str) else statement, params)


@pytest.mark.sampled
@pytest.mark.postgresql_only
@pytest.mark.parametrize("analyzed", ["never", "before", "after"])
def test_page_reads_few_rows_of_a_long_history(database: Database, analyzed: str) -> None:
    """The statistics are missing, or from before the bulk load, or from before the last completions."""
    version = int(database.fetch(text("SELECT current_setting('server_version_num') AS version"))[0].version)
    if analyzed != "after" and version < 170_000:
        pytest.skip("without statistics, the planner of earlier versions may read all jobs of a filter")
    rows.add_endpoint(database, "other")
    if analyzed == "before":
        without_timeout(database, "ANALYZE")
    without_timeout(database, MIXTURE, count=20_000)
    if analyzed == "after":
        without_timeout(database, "ANALYZE")
    without_timeout(
        database, "UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE execution_id > 'exec_9'"
    )
    without_timeout(
        database, "UPDATE jobs SET status = 'RETIRED', paused_at = NULL, retired_at = now() WHERE name IS NULL"
    )
    middle = database.fetch(text("SELECT created_at, job_id FROM jobs ORDER BY created_at OFFSET 10000 LIMIT 1"))[0]
    reads = Reads(database)
    for filters in choice_of(FILTERS, 3):
        for after in (None, Position(middle.created_at, middle.job_id)):
            job_list.page_of_jobs(database, JobFilter(**filters), PageRequest(10, after), SHORT)
            assert reads.total() < 1_000, (filters, after)
