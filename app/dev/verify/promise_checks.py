"""Checks of a run: pure functions from the evidence to its breaches of the promises."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from app.dev.verify.ending.ending_checks import (
    each_callback_once,
    each_failure_in_one_message,
    each_letter_redriven_once,
    one_letter_per_failure,
)
from app.dev.verify.events.event_checks import each_change_is_an_event, events_in_order
from app.dev.verify.evidence import AcceptedJob, Arrival, AttemptRow, Evidence, ExecutionRow, grouped
from app.dev.verify.flow.breaker_checks import breakers_hold
from app.dev.verify.flow.limit_checks import never_above_a_rate, never_above_max_in_flight
from app.dev.verify.flow.order_checks import due_first, higher_priorities_first, no_endpoint_without_progress
from app.dev.verify.flow.pause_checks import nothing_claimed_from_a_paused_queue
from app.dev.verify.history import no_stale_write, states_in_order
from app.dev.verify.workflows.workflow_checks import each_node_once, each_workflow_ends, nodes_in_order
from app.kernel.formats import numbered
from schema.states import FINAL, AttemptStatus, EndpointType, ExecutionStatus

SLOWEST_ANSWER_SECONDS = 31.0

_INTERNAL = {"TEMPLATE_RESOLUTION_FAILED", "NO_VERDICT", "INTERNAL_ERROR"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    name: str
    breaches: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.breaches


def run_checks(evidence: Evidence) -> list[CheckResult]:
    return [CheckResult(name, tuple(check(evidence))) for name, check in CHECKS.items()]


def nothing_lost(evidence: Evidence) -> Iterator[str]:
    """Find accepted jobs that were lost, unfinished executions, false successes and unjustified failures."""
    with_execution = {execution.job_id for execution in evidence.executions}
    arrived = {arrival.execution_id for arrival in evidence.arrivals if arrival.taken}
    attempts = evidence.attempts_of()
    for job in evidence.accepted:
        if job.job_id not in evidence.jobs:
            yield f"{job.job_id}: accepted, and not in the database"
        elif job.job_id not in with_execution and job.step is None:
            yield f"{job.job_id}: accepted, and without an execution"
    for execution in evidence.executions:
        name = execution.execution_id
        if execution.status not in FINAL:
            yield f"{name}: still {execution.status} at the end"
        elif execution.status is ExecutionStatus.SUCCESS and name not in arrived:
            yield f"{name}: SUCCESS, and its receiver has nothing"
        elif execution.status is ExecutionStatus.FAILED:
            yield from _unjustified_failure(execution, attempts.get(name, []))


def _unjustified_failure(execution: ExecutionRow, attempts: list[AttemptRow]) -> Iterator[str]:
    name = execution.execution_id
    if execution.attempt_count < execution.max_attempts and not (attempts and not attempts[-1].retryable):
        yield f"{name}: FAILED with attempts left and no error that forbids another"
    if [(attempt.error_type, attempt.retryable) for attempt in attempts] == [("WORKER_LOST", True)]:
        yield f"{name}: FAILED, and its only attempt was that of a lost worker"


def one_execution_each(evidence: Evidence) -> Iterator[str]:
    """Find jobs and ticks with more or fewer executions than one, and keys with more than one job."""
    yield from evidence.contradictions
    by_job = grouped(evidence.executions, "job_id")
    for job in evidence.accepted:
        executions = by_job.get(job.job_id, [])
        if job.is_stormed or job.step is not None:
            yield from _ticks(job, Counter(execution.scheduled_at for execution in executions))
        elif len(executions) > 1:
            yield f"{job.job_id}: {numbered(len(executions), 'execution')} of one job"
        if job.cancelled and any(execution.status is not ExecutionStatus.CANCELLED for execution in executions):
            yield f"{job.job_id}: runs although the API said that it was cancelled"


def _ticks(job: AcceptedJob, ticks: Counter[datetime]) -> Iterator[str]:
    """Find ticks that ran twice; missing and wrong ticks; of a stormed job the lack of a tick after its last resume."""
    yield from (
        f"{job.job_id}: {numbered(number, 'execution')} of the tick {tick}"
        for tick, number in ticks.items()
        if number > 1
    )
    if job.resumed_at is not None and not any(tick > job.resumed_at for tick in ticks):
        yield f"{job.job_id}: silent since it was resumed at {job.resumed_at}"
    if job.first_tick is None or job.step is None:
        return
    owed = int((job.ended_at - job.first_tick) / job.step) + 1 if job.ended_at and job.ended_at >= job.first_tick else 0
    expected = {job.first_tick + number * job.step for number in range(max(owed, len(ticks)))}
    yield from (f"{job.job_id}: no execution of the tick {tick}" for tick in sorted(expected - set(ticks)))
    yield from (f"{job.job_id}: an execution at {tick}, which is no tick" for tick in sorted(set(ticks) - expected))


def rollbacks_leave_nothing(evidence: Evidence) -> Iterator[str]:
    """Find jobs of transactions that never committed."""
    yield from (f"{job_id}: exists, and was rolled back" for job_id in sorted(evidence.rolled_back & evidence.jobs))


def attempts_without_gaps(evidence: Evidence) -> Iterator[str]:
    """Find executions with attempt numbers other than 1, 2, 3, … up to their count."""
    attempts = evidence.attempts_of()
    for execution in evidence.executions:
        numbers = [attempt.number for attempt in attempts.get(execution.execution_id, [])]
        if execution.status in FINAL and numbers != list(range(1, execution.attempt_count + 1)):
            yield f"{execution.execution_id}: attempts {numbers}, counted {execution.attempt_count}"


def repeats_explained(evidence: Evidence) -> Iterator[str]:
    """Find repeated deliveries without an attempt whose record explains them."""
    attempts = {(attempt.execution_id, attempt.number): attempt for attempt in evidence.attempts}
    known = {execution.execution_id for execution in evidence.executions}
    for execution_id, arrivals in evidence.arrivals_of().items():
        taken = [arrival for arrival in arrivals if arrival.taken]
        if execution_id not in known:
            yield f"{execution_id or 'a message without a delivery'}: arrived, and is no execution of this run"
        elif taken and taken[0].transport is EndpointType.REDIS_STREAM:
            if len(taken) > 1:
                yield f"{execution_id}: {numbered(len(taken), 'entry')} in the stream, whatever the attempts say"
        else:
            yield from _unexplained(execution_id, taken, attempts)


def _unexplained(execution_id: str, taken: list[Arrival], attempts: dict[tuple[str, int], AttemptRow]) -> Iterator[str]:
    """Judge the deliveries of one execution: each must belong to a success or to an uncertain attempt."""
    for number, times in Counter(arrival.attempt or 0 for arrival in taken).items():
        attempt = attempts.get((execution_id, number))
        if attempt is None:
            yield f"{execution_id}: attempt {number} arrived and is not recorded"
        elif times > 1:
            yield f"{execution_id}: attempt {number} arrived {numbered(times, 'time')}"
        elif attempt.status is not AttemptStatus.SUCCESS and not attempt.explains_a_repeat:
            yield f"{execution_id}: attempt {number} arrived and is recorded as {attempt.error_type}, not delivered"


def nothing_early(evidence: Evidence) -> Iterator[str]:
    """Find messages that arrived before their scheduled time."""
    scheduled = {execution.execution_id: execution.scheduled_at for execution in evidence.executions}
    for arrival in evidence.arrivals:
        due = scheduled.get(arrival.execution_id)
        if due is not None and arrival.at + arrival.grain + evidence.clock_slack < due:
            early_ms = (due - arrival.at) / timedelta(milliseconds=1)
            yield f"{arrival.execution_id}: {early_ms:.1f} ms before its time"


def nothing_after_a_cancel(evidence: Evidence) -> Iterator[str]:
    """Find executions that were cancelled before any attempt and arrived nevertheless."""
    tried = {attempt.execution_id for attempt in evidence.attempts}
    arrived = {arrival.execution_id for arrival in evidence.arrivals}
    for execution in evidence.executions:
        if execution.status is ExecutionStatus.CANCELLED and execution.execution_id in arrived - tried:
            yield f"{execution.execution_id}: cancelled before any attempt, and arrived"


def api_answers(evidence: Evidence) -> Iterator[str]:
    """Find valid requests that were refused or kept waiting without a fault as an excuse."""
    conduct = evidence.conduct
    yield from conduct.refused
    if conduct.unanswered:
        yield numbered(conduct.unanswered, "request", "were never answered")
    if conduct.slowest_answer > SLOWEST_ANSWER_SECONDS:
        yield f"an answer took {conduct.slowest_answer:.1f} s"


def no_internal_failures(evidence: Evidence) -> Iterator[str]:
    """Find attempts that failed inside the product: a missing key, a template, an unexpected error."""
    for attempt in evidence.attempts:
        if attempt.status is AttemptStatus.FAILED and attempt.error_type in _INTERNAL:
            yield f"{attempt.execution_id}: attempt {attempt.number} failed with {attempt.error_type}"


def locked_rows_block_nothing(evidence: Evidence) -> Iterator[str]:
    """Find locks of one row during which no other row changed."""
    for lock in evidence.locks:
        if not lock.others:
            seconds = (lock.until - lock.since).total_seconds()
            yield f"{lock.row_id}: locked for {seconds:.1f} s, in which no other row changed"


CHECKS: dict[str, Callable[[Evidence], Iterable[str]]] = {
    "no accepted job is lost": nothing_lost,
    "one execution per job and per tick": one_execution_each,
    "no job of a transaction that was rolled back exists": rollbacks_leave_nothing,
    "attempt numbers have no gaps": attempts_without_gaps,
    "no write of a stale claim took effect": no_stale_write,
    "every repeated delivery is explained": repeats_explained,
    "nothing is early": nothing_early,
    "states follow each other in order": states_in_order,
    "no execution cancelled in time arrived": nothing_after_a_cancel,
    "no attempt fails for an internal reason": no_internal_failures,
    "a locked row blocks no other row": locked_rows_block_nothing,
    "no secret is stored or logged": attrgetter("leaks"),
    "the API answers every valid request": api_answers,
    "no process ended unexpectedly": attrgetter("conduct.unexpected_ends"),
    "no limit of deliveries in flight is exceeded": never_above_max_in_flight,
    "no rate is exceeded": never_above_a_rate,
    "higher priorities go first": higher_priorities_first,
    "earlier due times go first": due_first,
    "every endpoint makes progress": no_endpoint_without_progress,
    "breakers open, probe once and close": breakers_hold,
    "nothing is claimed from a paused queue": nothing_claimed_from_a_paused_queue,
    "each end has one job per callback": each_callback_once,
    "each failure leaves one dead letter": one_letter_per_failure,
    "each dead letter is redriven once": each_letter_redriven_once,
    "each failure is counted in one message": each_failure_in_one_message,
    "each node of a workflow has one job": each_node_once,
    "nodes start after the nodes before them": nodes_in_order,
    "each workflow ends": each_workflow_ends,
    "events come once and in order": events_in_order,
    "each change is an event": each_change_is_an_event,
}
