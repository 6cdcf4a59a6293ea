"""Explanations of a page of executions by few statements: each reads rows of all executions that need them."""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Executable

from app.kernel.db import Database
from app.kernel.db.gathered_reads import run_gathered
from app.kernel.db.reads import Reads, RememberedReads
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
    partition_of,
)

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
    explain = partial(_explained, among=[*facts], reclaim_every=reclaim_every, reasons=reasons)
    tasks = {each.execution_id: partial(explain, facts=each) for each in filter(None, map(facts.get, executions))}
    order = [LINE, LAST_EVENT, *(statement for reason in reasons for statement in reason.statements)]
    known, apart = RememberedReads(database), database.is_cockroach
    return run_gathered(known, tasks, order=order, may_go_on=lambda: clock() < until, apart=apart)


def _explained(
    reads: Reads, facts: Facts, among: Sequence[str], reclaim_every: timedelta, reasons: Sequence[WaitingReason]
) -> Explanation:
    return explained(_ReadsOfLines(reads, facts, among), facts, reclaim_every, reasons)


class _ReadsOfLines:
    """Reads for one of several executions: its place is found in the line of its partition, which is read for all."""

    def __init__(self, reads: Reads, facts: Facts, among: Sequence[str]) -> None:
        self._reads = reads
        self._execution_id = facts.execution_id
        self._line = {
            **partition_of(facts),
            "executions": among,
            "most": MAX_AHEAD + 1,
            "most_above": MAX_ABOVE,
        }

    def fetch(self, statement: Executable, params: Mapping[str, object] | None = None) -> Sequence[Any]:
        if statement is not AHEAD:
            return self._reads.fetch(statement, params)
        line = self._reads.fetch(LINE, self._line)
        ahead = next((row.ahead for row in line if row.execution_id == self._execution_id), MAX_AHEAD + 1)
        return [_Ahead(line[0].workers, ahead, line[0].above, line[0].found_above)]
