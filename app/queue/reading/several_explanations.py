"""Explanations of a page of executions: one read for each partition, not one for each execution.

The reads of a single explanation are made for all executions at once, and remembered. Further reads, such as the state
of a limit, are remembered for the executions of the same partition.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from app.kernel.db.reads import Reads, RememberedReads
from app.kernel.function_types import Clock
from app.kernel.sql import statement
from app.kernel.unreadable import readable
from app.queue.claiming.arms import CLAIMABLE
from app.queue.ending.execution_events import ChangeReason
from app.queue.reading.explanation import CANCELLING, ENDING, LAST_EVENT, explained, params_of_event
from app.queue.reading.waiting_reasons import (
    AHEAD,
    DUE_ABOVE,
    FACTS_OF_SEVERAL,
    MAX_ABOVE,
    MAX_AHEAD,
    PARTITION,
    WORKERS,
    Explanation,
    Facts,
    WaitingReason,
    params_of_ahead,
    partition_of,
)
from schema.states import CANCELLABLE, ExecutionStatus

MAX_EXPLAINED = 50
SECONDS = 1.0  # the executions that are left after this time are not explained

LAST_EVENTS = statement(
    "executions.explain_events",
    """
    SELECT DISTINCT ON (execution_id) execution_id, actor, reason FROM execution_events
     WHERE execution_id = ANY (CAST(:executions AS TEXT[])) AND reason = ANY (CAST(:reasons AS TEXT[]))
     ORDER BY execution_id, occurred_at DESC, event_id DESC
    """,
)
SERVING = statement("executions.explain_serving", "SELECT {workers} AS workers", workers=WORKERS)
ABOVE = statement(
    "executions.explain_above",
    "SELECT above.due AS above, above.found AS found_above FROM {due_above}",
    due_above=DUE_ABOVE,
)
LINE = statement(
    "executions.explain_line",
    """
    SELECT o.execution_id FROM executions AS o WHERE {partition} AND o.priority = :priority AND {claimable}
     ORDER BY o.run_at, o.execution_id LIMIT :most
    """,
    partition=PARTITION,
    claimable=CLAIMABLE,
)


class _Ahead(NamedTuple):
    """A row of AHEAD."""

    workers: int
    ahead: int
    above: int
    found_above: int


def explain_several(
    reads: Reads,
    executions: Collection[str],
    *,
    reclaim_every: timedelta,
    reasons: Sequence[WaitingReason],
    seconds: float = SECONDS,
    clock: Clock = time.monotonic,
) -> Mapping[str, Explanation]:
    """Explain executions by id, until `seconds` are over; unknown executions are left out."""
    until = clock() + seconds
    rows = reads.fetch(FACTS_OF_SEVERAL, {"executions": list(executions)})
    readable_facts = readable(Facts.from_row, rows, "execution {.execution_id}".format)
    facts = {each.execution_id: each for each in readable_facts}
    known = RememberedReads(reads)
    _learn_events(known, reads, facts.values())
    lines = _lines_of(facts.values())
    found = dict[str, Explanation]()
    for each in filter(None, map(facts.get, executions)):
        if clock() >= until:
            break
        if _is_due(each) and (line := lines.pop(_partition_of(each), None)):
            _learn_line(known, reads, line)
        found[each.execution_id] = explained(known, each, reclaim_every, reasons)
    return found


def _learn_events(known: RememberedReads, reads: Reads, facts: Collection[Facts]) -> None:
    failed = [each for each in facts if each.status is ExecutionStatus.FAILED]
    asked = [each for each in facts if each.status is ExecutionStatus.CANCELLED or each.cancel_requested_at is not None]
    for several, reasons in ((failed, ENDING), (asked, CANCELLING)):
        _learn_events_of(known, reads, several, reasons)


def _learn_events_of(
    known: RememberedReads, reads: Reads, facts: Collection[Facts], reasons: Sequence[ChangeReason]
) -> None:
    if not facts:
        return
    params = {"executions": [each.execution_id for each in facts], "reasons": [reason.value for reason in reasons]}
    latest = {row.execution_id: [row] for row in reads.fetch(LAST_EVENTS, params)}
    for each in facts:
        known.learn(LAST_EVENT, params_of_event(each, reasons), latest.get(each.execution_id, []))


def _lines_of(facts: Collection[Facts]) -> dict[tuple[object, ...], list[Facts]]:
    """Return the due executions by their partitions."""
    lines = defaultdict[tuple[object, ...], list[Facts]](list)
    for each in facts:
        if _is_due(each):
            lines[_partition_of(each)].append(each)
    return lines


def _is_due(facts: Facts) -> bool:
    is_queued = facts.status in CANCELLABLE and facts.status is not ExecutionStatus.PENDING
    return is_queued and facts.run_at <= facts.now


def _partition_of(facts: Facts) -> tuple[object, ...]:
    return tuple(partition_of(facts).values())


def _learn_line(known: RememberedReads, reads: Reads, line: Sequence[Facts]) -> None:
    """Read a partition once for its executions, shortly before the first of them is explained."""
    partition = partition_of(line[0])
    (serving,) = known.fetch(SERVING, {"queue": line[0].queue})
    (above,) = reads.fetch(ABOVE, partition | {"most_above": MAX_ABOVE})
    earlier = reads.fetch(LINE, partition | {"most": MAX_AHEAD + 1})
    places = {row.execution_id: place for place, row in enumerate(earlier)}
    for each in line:
        place = places.get(each.execution_id, MAX_AHEAD + 1)
        known.learn(AHEAD, params_of_ahead(each), [_Ahead(serving.workers, place, above.above, above.found_above)])
