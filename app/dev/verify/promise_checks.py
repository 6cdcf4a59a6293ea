"""Checks of a run: pure functions from the evidence to its breaches of the promises."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from app.dev.verify.evidence import Accepted, Arrival, AttemptRow, Evidence, ExecutionRow
from app.dev.verify.flow.breaker_checks import breakers_hold
from app.dev.verify.flow.limit_checks import never_above_a_rate, never_above_max_in_flight
from app.dev.verify.flow.order_checks import due_first, higher_priorities_first, no_endpoint_without_progress
from app.dev.verify.history import no_stale_write, states_in_order
from schema.states import AttemptStatus, EndpointType, ExecutionStatus

SLOWEST_ANSWER_SECONDS = 31.0

_OURS = {"TEMPLATE_RESOLUTION_FAILED", "NO_VERDICT", "INTERNAL_ERROR"}

Check = Callable[[Evidence], Iterable[str]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    name: str
    breaches: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.breaches


def run_checks(evidence: Evidence) -> list[CheckResult]:
    """Run every check."""
    return [CheckResult(name, tuple(check(evidence))) for name, check in CHECKS.items()]


def nothing_lost(evidence: Evidence) -> Iterator[str]:
    """Find accepted jobs that are not stored, not finished, or called a success without having arrived."""
    by_job = _by_job(evidence)
    arrived = {arrival.execution_id for arrival in evidence.arrivals if arrival.taken}
    attempts = evidence.attempts_of()
    for job in evidence.accepted:
        if job.job_id not in evidence.jobs:
            yield f"{job.job_id}: accepted, and not in the database"
        elif not by_job.get(job.job_id) and job.step is None:
            yield f"{job.job_id}: accepted, and without an execution"
    for execution in evidence.executions:
        if not execution.is_final:
            yield f"{execution.execution_id}: still {execution.status} at the end"
        if execution.status is ExecutionStatus.SUCCESS and execution.execution_id not in arrived:
            yield f"{execution.execution_id}: SUCCESS, and its receiver has nothing"
        if execution.status is ExecutionStatus.FAILED and not _may_fail(
            execution, attempts.get(execution.execution_id, [])
        ):
            yield f"{execution.execution_id}: FAILED with attempts left and no error that forbids another"
        if execution.status is ExecutionStatus.FAILED and _perhaps_unsent(attempts.get(execution.execution_id, [])):
            yield f"{execution.execution_id}: FAILED, and its only attempt was that of a lost worker"


def one_execution_each(evidence: Evidence) -> Iterator[str]:
    """Find jobs and ticks with more or fewer executions than one, and keys with more than one job."""
    yield from evidence.contradictions
    by_job = _by_job(evidence)
    for job in evidence.accepted:
        executions = by_job.get(job.job_id, [])
        if job.is_stormed:
            yield from _goes_on(job, executions)
        elif job.step is not None:
            yield from _ticks(job, executions)
        elif len(executions) > 1:
            yield f"{job.job_id}: {len(executions)} executions of one job"
        if job.cancelled and any(execution.status is not ExecutionStatus.CANCELLED for execution in executions):
            yield f"{job.job_id}: runs although the API said that it was cancelled"


def attempts_without_gaps(evidence: Evidence) -> Iterator[str]:
    """Find executions whose attempts are not numbered 1, 2, 3 … up to their count."""
    attempts = evidence.attempts_of()
    for execution in evidence.executions:
        if not execution.is_final:
            continue
        numbers = [attempt.number for attempt in attempts.get(execution.execution_id, [])]
        if numbers != list(range(1, execution.attempt_count + 1)):
            yield f"{execution.execution_id}: attempts {numbers}, counted {execution.attempt_count}"


def repeats_explained(evidence: Evidence) -> Iterator[str]:
    """Find deliveries that came again without a record which says that they may."""
    attempts = {(attempt.execution_id, attempt.number): attempt for attempt in evidence.attempts}
    known = {execution.execution_id for execution in evidence.executions}
    for execution_id, arrivals in evidence.arrivals_of().items():
        taken = [arrival for arrival in arrivals if arrival.taken]
        if execution_id not in known:
            yield f"{execution_id or 'a message without a delivery'}: arrived, and is no execution of this run"
        elif taken and taken[0].transport is EndpointType.REDIS_STREAM:
            if len(taken) > 1:
                yield f"{execution_id}: {len(taken)} entries in the stream, whatever the attempts say"
        else:
            yield from _unexplained(execution_id, taken, attempts)


def nothing_early(evidence: Evidence) -> Iterator[str]:
    """Find messages that came before the instant they were scheduled for."""
    scheduled = {execution.execution_id: execution.scheduled_at for execution in evidence.executions}
    for arrival in evidence.arrivals:
        due = scheduled.get(arrival.execution_id)
        if due is not None and arrival.at + arrival.grain + evidence.clock_slack < due:
            yield f"{arrival.execution_id}: {_ms(due - arrival.at)} ms before its time"


def nothing_after_a_cancel(evidence: Evidence) -> Iterator[str]:
    """Find executions that were cancelled before any attempt and arrived all the same."""
    tried = {attempt.execution_id for attempt in evidence.attempts}
    arrived = {arrival.execution_id for arrival in evidence.arrivals}
    for execution in evidence.executions:
        never_tried = execution.status is ExecutionStatus.CANCELLED and execution.execution_id not in tried
        if never_tried and execution.execution_id in arrived:
            yield f"{execution.execution_id}: cancelled before any attempt, and arrived"


def api_keeps_its_word(evidence: Evidence) -> Iterator[str]:
    """Find answers that no fault excuses: a good request refused, or one kept waiting."""
    conduct = evidence.conduct
    yield from conduct.refused
    if conduct.unanswered:
        yield f"{conduct.unanswered} requests were never answered"
    if conduct.slowest_answer > SLOWEST_ANSWER_SECONDS:
        yield f"an answer took {conduct.slowest_answer:.1f} s"


def no_attempt_spent_on_us(evidence: Evidence) -> Iterator[str]:
    """Find attempts that failed for a reason of ours: a key that a process lacks, a template, an unexpected error."""
    for attempt in evidence.attempts:
        if attempt.status is AttemptStatus.FAILED and attempt.error_type in _OURS:
            yield f"{attempt.execution_id}: attempt {attempt.number} failed with {attempt.error_type}"


def a_locked_row_is_alone(evidence: Evidence) -> Iterator[str]:
    """Find rows whose lock held up all others."""
    for lock in evidence.locks:
        if not lock.others:
            seconds = (lock.until - lock.since).total_seconds()
            yield f"{lock.row_id}: locked for {seconds:.1f} s, in which no other row changed"


def secrets_stay_secret(evidence: Evidence) -> Iterator[str]:
    """Find the secret of the run in what is stored or logged."""
    yield from evidence.leaks


def processes_live(evidence: Evidence) -> Iterator[str]:
    """Find processes that ended by themselves, other than to be started again after a lost lease."""
    yield from evidence.conduct.unexpected_ends


CHECKS: dict[str, Check] = {
    "no accepted job is lost": nothing_lost,
    "one execution per job and per tick": one_execution_each,
    "attempt numbers have no gaps": attempts_without_gaps,
    "no write of a stale claim took effect": no_stale_write,
    "every repeated delivery is explained": repeats_explained,
    "nothing is early": nothing_early,
    "states follow each other in order": states_in_order,
    "what was cancelled in time never arrived": nothing_after_a_cancel,
    "no attempt is spent on trouble of our own": no_attempt_spent_on_us,
    "a locked row holds up no other": a_locked_row_is_alone,
    "no secret is stored or logged": secrets_stay_secret,
    "the API keeps its word": api_keeps_its_word,
    "no process ended unasked": processes_live,
    "no limit of deliveries in flight is passed": never_above_max_in_flight,
    "no rate is passed": never_above_a_rate,
    "higher priorities go first": higher_priorities_first,
    "what is due first goes first": due_first,
    "no endpoint is left without progress": no_endpoint_without_progress,
    "breakers open, probe once and close": breakers_hold,
}


def _by_job(evidence: Evidence) -> dict[str, list[ExecutionRow]]:
    grouped: dict[str, list[ExecutionRow]] = {}
    for execution in evidence.executions:
        grouped.setdefault(execution.job_id, []).append(execution)
    return grouped


def _may_fail(execution: ExecutionRow, attempts: list[AttemptRow]) -> bool:
    return execution.attempt_count >= execution.max_attempts or bool(attempts and not attempts[-1].retryable)


def _perhaps_unsent(attempts: list[AttemptRow]) -> bool:
    return [(attempt.error_type, attempt.retryable) for attempt in attempts] == [("WORKER_LOST", True)]


def _ticks(job: Accepted, executions: list[ExecutionRow]) -> Iterator[str]:
    """Compare the ticks of a job that repeats with those it owes: from the first, without a gap, to its end."""
    if job.first_tick is None or job.step is None:
        return
    counted = Counter(execution.scheduled_at for execution in executions)
    yield from (
        f"{job.job_id}: {number} executions of the tick {tick}" for tick, number in counted.items() if number > 1
    )
    owed = int((job.ended_at - job.first_tick) / job.step) + 1 if job.ended_at and job.ended_at >= job.first_tick else 0
    number = max(owed, len(counted))
    expected = {job.first_tick + index * job.step for index in range(number)}
    yield from (f"{job.job_id}: no execution of the tick {tick}" for tick in sorted(expected - set(counted)))
    yield from (f"{job.job_id}: an execution at {tick}, which is no tick" for tick in sorted(set(counted) - expected))


def _goes_on(job: Accepted, executions: list[ExecutionRow]) -> Iterator[str]:
    """Look for ticks that came twice, and for one after the last resume."""
    counted = Counter(execution.scheduled_at for execution in executions)
    yield from (
        f"{job.job_id}: {number} executions of the tick {tick}" for tick, number in counted.items() if number > 1
    )
    if job.resumed_at is not None and not any(tick > job.resumed_at for tick in counted):
        yield f"{job.job_id}: silent since it was resumed at {job.resumed_at}"


def _unexplained(execution_id: str, taken: list[Arrival], attempts: dict[tuple[str, int], AttemptRow]) -> Iterator[str]:
    """Judge the deliveries of one execution: one belongs to its success, each other one to an uncertain attempt."""
    for number, times in Counter(arrival.attempt or 0 for arrival in taken).items():
        attempt = attempts.get((execution_id, number))
        if attempt is None:
            yield f"{execution_id}: attempt {number} arrived and is not recorded"
        elif times > 1:
            yield f"{execution_id}: attempt {number} arrived {times} times"
        elif attempt.status is not AttemptStatus.SUCCESS and not attempt.explains_a_repeat:
            yield f"{execution_id}: attempt {number} arrived and is recorded as {attempt.error_type}, not delivered"


def _ms(delta: timedelta) -> str:
    return f"{delta / timedelta(milliseconds=1):.1f}"
