"""Explanations of a page of executions by few statements: each reads rows of all executions that need them."""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.db.gathered_reads import read_several, run_gathered
from app.kernel.db.reads import RememberedReads
from app.kernel.function_types import Clock
from app.kernel.sql import read_together, statement
from app.kernel.unreadable import readable
from app.queue.claiming.arms import CLAIMABLE
from app.queue.reading.explanation import LAST_EVENT, explained
from app.queue.reading.waiting_reasons import (
    AHEAD,
    FACTS_OF_SEVERAL,
    MAX_ABOVE,
    MAX_AHEAD,
    OF_PARTITION,
    PARTITION,
    Explanation,
    Facts,
    WaitingReason,
    params_of_ahead,
    partition_of,
)
from schema.states import CANCELLABLE, ExecutionStatus

MAX_EXPLAINED = 50
SECONDS = 1.0  # the executions that are left after this time are not explained

LINE = statement(
    "executions.explain_line",
    """
    SELECT earlier.execution_id, earlier.ahead, {of_partition} LEFT JOIN (
             SELECT line.execution_id, line.ahead FROM (
               SELECT o.execution_id, row_number() OVER (ORDER BY o.run_at, o.execution_id) - 1 AS ahead
                 FROM executions AS o WHERE {partition} AND o.priority = :priority AND {claimable}
                ORDER BY o.run_at, o.execution_id LIMIT :most) AS line
              WHERE line.execution_id = ANY (CAST(:executions AS TEXT[]))) AS earlier ON true
    """,
    of_partition=OF_PARTITION,
    partition=PARTITION,
    claimable=CLAIMABLE,
)
read_together(LINE, queue="TEXT", shard="BIGINT", endpoint="TEXT", limit_key="TEXT", priority="BIGINT")


class _Ahead(NamedTuple):
    """A row of AHEAD."""

    workers: int
    ahead: int
    above: int
    found_above: int


def explain_several(
    database: Database,
    executions: Collection[str],
    *,
    reclaim_every: timedelta,
    reasons: Sequence[WaitingReason],
    seconds: float = SECONDS,
    clock: Clock = time.monotonic,
) -> Mapping[str, Explanation]:
    """Explain executions by id, until `seconds` are over; unknown executions are left out."""
    until = clock() + seconds
    rows = database.fetch(FACTS_OF_SEVERAL, {"executions": list(executions)})
    readable_facts = readable(Facts.from_row, rows, "execution {.execution_id}".format)
    facts = {each.execution_id: each for each in readable_facts}
    if clock() >= until:
        return {}
    known = RememberedReads(database)
    _learn_places(known, database, [each for each in facts.values() if _is_due(each)])
    tasks = {
        each.execution_id: partial(explained, facts=each, reclaim_every=reclaim_every, reasons=reasons)
        for each in filter(None, map(facts.get, executions))
    }
    order = [LAST_EVENT, *(statement for reason in reasons for statement in reason.statements)]
    apart = database.is_cockroach
    return run_gathered(known, tasks, order=order, may_go_on=lambda: clock() < until, apart=apart)


def _is_due(facts: Facts) -> bool:
    is_queued = facts.status in CANCELLABLE and facts.status is not ExecutionStatus.PENDING
    return is_queued and facts.run_at <= facts.now


def _learn_places(known: RememberedReads, database: Database, due: Sequence[Facts]) -> None:
    """Read each partition once for all of its executions."""
    shared = {"executions": [each.execution_id for each in due], "most": MAX_AHEAD + 1, "most_above": MAX_ABOVE}
    partitions = {_key(each): partition_of(each) | shared for each in due}
    lines = dict(
        zip(partitions, read_several(database, LINE, [*partitions.values()], apart=database.is_cockroach), strict=True)
    )
    for each in due:
        line = lines[_key(each)]
        ahead = next((row.ahead for row in line if row.execution_id == each.execution_id), MAX_AHEAD + 1)
        of_all = _Ahead(line[0].workers, ahead, line[0].above, line[0].found_above)
        known.learn(AHEAD, params_of_ahead(each), [of_all])


def _key(facts: Facts) -> tuple[object, ...]:
    return tuple(partition_of(facts).values())
