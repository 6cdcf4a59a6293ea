"""Uses of endpoints, payload specs, configs and secrets: bounded counts by kind, each with a few examples."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.catalog.dependents import REFERS, RUNS, USES_IN_DEFINITIONS, USES_IN_WORK, WAITS
from app.catalog.endpoints import versions
from app.catalog.named_table import NamedTable
from app.kernel.db import Database
from app.kernel.name_patterns import matches
from app.kernel.sql import statement

MAX_COUNTED = 1_000  # uses of each kind, and executions of each endpoint that are read
MAX_ENDPOINTS = 100  # endpoints of a named value that are read with their jobs and executions
MAX_EXAMPLES = 5


class UseKind(StrEnum):
    ENDPOINT = "endpoint"
    CALLBACK = "callback"
    WORKFLOW_DEFINITION = "workflow_definition"
    CHANNEL = "channel"
    RULE = "rule"
    SCHEDULE = "schedule"
    WORKFLOW_NODE = "workflow_node"
    WAITING_EXECUTION = "waiting_execution"
    RUNNING_EXECUTION = "running_execution"


OF_ENDPOINT_KINDS = tuple(kind for kind in UseKind if kind is not UseKind.ENDPOINT)
OF_VALUE_KINDS = (UseKind.ENDPOINT, UseKind.SCHEDULE, UseKind.WAITING_EXECUTION, UseKind.RUNNING_EXECUTION)

_COUNTED = f"""numbered AS (
      SELECT kind, id, title, count(*) OVER (PARTITION BY kind) AS n,
             row_number() OVER (PARTITION BY kind ORDER BY id) AS nth FROM found)
    SELECT kind, id, title, n FROM numbered WHERE nth <= {MAX_EXAMPLES} ORDER BY kind, id"""  # noqa: S608 - a constant
_LIMITS = {"most": MAX_COUNTED + 1, "endpoints": MAX_ENDPOINTS + 1, "counted": _COUNTED}
_OF_ENDPOINT = """
    WITH found AS MATERIALIZED ({uses}),
    {counted}
    """
DEFINITIONS = statement("uses.definitions", _OF_ENDPOINT, uses=USES_IN_DEFINITIONS, counted=_COUNTED)
WORK = statement("uses.work", _OF_ENDPOINT, uses=USES_IN_WORK, counted=_COUNTED)
WAITING_BY_VERSION = statement(
    "uses.waiting_by_version",
    """
    SELECT version, count(*) AS n
      FROM (SELECT endpoint_version AS version FROM executions WHERE endpoint = :name AND {waits} LIMIT {most}) AS seen
     GROUP BY version ORDER BY version DESC
    """,
    waits=WAITS,
    most=MAX_COUNTED,
)
RULES = statement(
    "uses.rules",
    """
    SELECT name, rule_json->>'endpoint' AS pattern FROM notification_rules
     WHERE rule_json->>'endpoint' IS NOT NULL OR rule_json->>'all' = 'true'
     ORDER BY name LIMIT {most}
    """,
    most=MAX_COUNTED + 1,
)

# The last parts of `found` name the kinds with rows that were not read.
_OF_VALUE = """
    WITH v AS MATERIALIZED (SELECT endpoint, version FROM endpoint_versions WHERE {refers}),
    n AS MATERIALIZED (SELECT DISTINCT endpoint FROM v ORDER BY endpoint LIMIT {endpoints}),
    waits AS MATERIALIZED (
      SELECT n.endpoint, x.id, x.version FROM n CROSS JOIN LATERAL (
        SELECT execution_id AS id, endpoint_version AS version FROM executions
         WHERE endpoint = n.endpoint AND {waits} LIMIT {most}) AS x),
    runs AS MATERIALIZED (
      SELECT n.endpoint, x.id, x.version FROM n CROSS JOIN LATERAL (
        SELECT execution_id AS id, endpoint_version AS version FROM executions
         WHERE endpoint = n.endpoint AND {runs} LIMIT {most}) AS x),
    repeats AS MATERIALIZED (
      SELECT n.endpoint, x.id, x.title, x.version FROM n CROSS JOIN LATERAL (
        SELECT job_id AS id, name AS title, endpoint_version AS version FROM jobs
         WHERE endpoint = n.endpoint AND trigger_type IN ('CRON', 'INTERVAL') AND status <> 'RETIRED'
         LIMIT {most}) AS x),
    found AS MATERIALIZED (
      (SELECT 'endpoint' AS kind, e.name AS id, CAST(NULL AS TEXT) AS title FROM endpoints AS e
         JOIN v ON v.endpoint = e.name AND v.version = e.version WHERE e.deleted_at IS NULL LIMIT {most})
      UNION ALL
      (SELECT 'schedule', r.id, r.title FROM repeats AS r
         JOIN v ON v.endpoint = r.endpoint AND v.version = r.version LIMIT {most})
      UNION ALL
      (SELECT 'waiting_execution', w.id, CAST(w.version AS TEXT) FROM waits AS w
         JOIN v ON v.endpoint = w.endpoint AND v.version = w.version LIMIT {most})
      UNION ALL
      (SELECT 'running_execution', r.id, CAST(r.version AS TEXT) FROM runs AS r
         JOIN v ON v.endpoint = r.endpoint AND v.version = r.version LIMIT {most})
      UNION ALL
      (SELECT '', 'schedule', NULL FROM repeats GROUP BY endpoint HAVING count(*) >= {most} LIMIT 1)
      UNION ALL
      (SELECT '', 'waiting_execution', NULL FROM waits GROUP BY endpoint HAVING count(*) >= {most} LIMIT 1)
      UNION ALL
      (SELECT '', 'running_execution', NULL FROM runs GROUP BY endpoint HAVING count(*) >= {most} LIMIT 1)
      UNION ALL
      (SELECT '', 'endpoint', NULL FROM n HAVING count(*) >= {endpoints})),
    {counted}
    """


OF_VALUE = {
    noun: statement(f"uses.of_{noun.replace(' ', '_')}", _OF_VALUE, refers=refers, waits=WAITS, runs=RUNS, **_LIMITS)
    for noun, refers in REFERS.items()
}


class UseExample(NamedTuple):
    """A use; `title` is the name of a job or of a node, or the endpoint version of an execution."""

    id: str
    title: str | None


@dataclass(frozen=True, slots=True)
class Use:
    """Uses of one kind; not complete if there may be more than `count`."""

    kind: UseKind
    count: int
    is_complete: bool
    examples: Sequence[UseExample]


@dataclass(frozen=True, slots=True)
class WaitingVersion:
    """Number of waiting executions of an endpoint version, among the first MAX_COUNTED."""

    version: int
    count: int


class Uses(NamedTuple):
    name: str
    uses: Sequence[Use]
    waiting: Sequence[WaitingVersion] = ()


def of_endpoint(database: Database, name: str) -> Uses:
    """Count the uses of a live endpoint; raises EndpointNotFoundError."""
    versions.get(database, name)
    by_version = database.fetch(WAITING_BY_VERSION, {"name": name})
    return Uses(name, uses_of_endpoint(database, name), [WaitingVersion(row.version, row.n) for row in by_version])


def uses_of_endpoint(database: Database, name: str) -> list[Use]:
    """Count the uses of an endpoint that the caller has read."""
    rows = [
        row for part in (DEFINITIONS, WORK) for row in database.fetch(part, {"name": name, "most": MAX_COUNTED + 1})
    ]
    found = list(_uses(rows, OF_ENDPOINT_KINDS))
    rules = [row for row in database.fetch(RULES) if row.pattern is None or matches(row.pattern, name)]
    found[OF_ENDPOINT_KINDS.index(UseKind.RULE)] = _use(
        UseKind.RULE, len(rules), [UseExample(row.name, row.pattern) for row in rules[:MAX_EXAMPLES]]
    )
    return found


def of_value(database: Database, table: NamedTable, name: str) -> Uses:
    """Count the uses of a payload spec, a config or a secret; raises the table's `not_found`."""
    table.get(database, name)
    return Uses(name, list(_uses(database.fetch(OF_VALUE[table.noun], {"name": name}), OF_VALUE_KINDS)))


def _uses(rows: Sequence[Row[Any]], kinds: Sequence[UseKind]) -> Iterator[Use]:
    by_kind = defaultdict[str, list[Row[Any]]](list)
    for row in rows:
        by_kind[row.kind].append(row)
    unread = {row.id for row in by_kind[""]}
    for kind in kinds:
        found = by_kind[kind]
        is_cut = kind in unread or (kind is not UseKind.ENDPOINT and UseKind.ENDPOINT in unread)
        count = found[0].n if found else 0
        yield _use(kind, count, [UseExample(row.id, row.title) for row in found], is_cut=is_cut)


def _use(kind: UseKind, count: int, examples: Sequence[UseExample], *, is_cut: bool = False) -> Use:
    return Use(kind, min(count, MAX_COUNTED), count <= MAX_COUNTED and not is_cut, examples)
