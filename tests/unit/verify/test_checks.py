"""Each check of the verifier finds its breach and accepts legal evidence."""

from dataclasses import replace
from datetime import datetime, timedelta

from app.dev.verify.evidence import (
    AcceptedJob,
    Arrival,
    AttemptRow,
    Conduct,
    Evidence,
    ExecutionRow,
    Limit,
    RowLock,
    TransitionRow,
)
from app.dev.verify.promise_checks import run_checks
from app.dev.verify.report import lateness, repeats_by_cause
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, Trigger
from tests.cases import each_case
from tests.unit.verify import ending_breaches
from tests.unit.verify.flow_checks import FLOW
from tests.unit.verify.good_run import CHANGES, CRON, DUE, EXECUTION, FIRST, GOOD, MINUTE, MS, SECOND, S, tick
from tests.unit.verify.workflow_checks import WORKFLOWS

OUR_ERROR = "TEMPLATE_RESOLUTION_FAILED"
LOST = "no accepted job is lost"
ONE = "one execution per job and per tick"
GAPS = "attempt numbers have no gaps"
STALE = "no write of a stale claim took effect"
REPEATS = "every repeated delivery is explained"
EARLY = "nothing is early"
ORDER = "states follow each other in order"
CANCELLED = "no execution cancelled in time arrived"
OURS = "no attempt fails for an internal reason"
LOCKS = "a locked row blocks no other row"
SECRETS = "no secret is stored or logged"
API = "the API answers every valid request"
PROCESSES = "no process ended unexpectedly"


UNCHANGED = (GOOD.transitions or ())[len(CHANGES) :]


def with_execution(**changes: object) -> Evidence:
    return replace(GOOD, executions=(replace(EXECUTION, **changes), *GOOD.executions[1:]))  # type: ignore[arg-type]


def with_changes(*changes: TransitionRow) -> Evidence:
    return replace(GOOD, transitions=(*changes, *UNCHANGED))


def with_arrivals(*arrivals: Arrival) -> Evidence:
    return replace(GOOD, arrivals=arrivals)


def arrival(attempt: int | None = 2, at: timedelta = 5 * MS, **changes: object) -> Arrival:
    return replace(Arrival(EndpointType.HTTP, "e1", attempt, DUE + at), **changes)  # type: ignore[arg-type]


def in_stream(execution_id: str = "e1") -> Arrival:
    return Arrival(EndpointType.REDIS_STREAM, execution_id, None, DUE + MS)


def with_storm(*ticks: ExecutionRow, resumed_at: datetime = DUE) -> Evidence:
    stormed = AcceptedJob("j2", "tick", Trigger.INTERVAL, is_stormed=True, resumed_at=resumed_at)
    return replace(GOOD, accepted=(GOOD.accepted[0], stormed), executions=(*GOOD.executions, *ticks), transitions=None)


BREACHES: dict[str, tuple[str, Evidence]] = {
    "a job is not stored": (LOST, replace(GOOD, jobs=frozenset({"j2"}))),
    "a job has no execution": (LOST, replace(GOOD, executions=GOOD.executions[1:])),
    "an execution never ends": (LOST, with_execution(status=S.RUNNING)),
    "a success never arrived": (LOST, with_arrivals()),
    "a success was only refused": (LOST, with_arrivals(arrival(taken=False))),
    "it failed with attempts left": (LOST, with_execution(status=S.FAILED)),
    "its only worker was lost": (
        LOST,
        replace(with_execution(status=S.FAILED, attempt_count=1, max_attempts=1), attempts=(FIRST,)),
    ),
    "a key has two jobs": (ONE, replace(GOOD, contradictions=("k1: j1 and j9",))),
    "a job has two executions": (
        ONE,
        replace(GOOD, executions=(*GOOD.executions, replace(EXECUTION, execution_id="e9"))),
    ),
    "a stormed job has stopped": (ONE, with_storm(resumed_at=DUE + 2 * MINUTE)),
    "a stormed job ran a tick twice": (ONE, with_storm(tick("t3", DUE))),
    "a cancelled job ran": (ONE, replace(GOOD, accepted=(replace(GOOD.accepted[0], cancelled=True), CRON))),
    "a tick ran twice": (ONE, replace(GOOD, executions=(*GOOD.executions, tick("t3", DUE)))),
    "a tick is missing at the end": (ONE, replace(GOOD, executions=GOOD.executions[:2])),
    "a tick is missing between": (
        ONE,
        replace(GOOD, executions=(EXECUTION, tick("t1", DUE), tick("t3", DUE + 2 * MINUTE))),
    ),
    "something ran between two ticks": (ONE, replace(GOOD, executions=(*GOOD.executions, tick("t3", DUE + MS)))),
    "an attempt is not recorded": (GAPS, replace(GOOD, attempts=(SECOND,))),
    "more attempts than the count": (GAPS, with_execution(attempt_count=1)),
    "a worker recorded another's attempt": (STALE, replace(GOOD, attempts=(FIRST, replace(SECOND, worker_id="w1")))),
    "a claim without a lease": (STALE, with_changes(CHANGES[0], replace(CHANGES[1], lease_valid=False), *CHANGES[2:])),
    "another worker ended the claim": (STALE, with_changes(*CHANGES[:4], replace(CHANGES[4], worker_after="w1"))),
    "it continued after a success": (
        STALE,
        replace(GOOD, attempts=(replace(FIRST, status=AttemptStatus.SUCCESS), SECOND)),
    ),
    "it arrived twice in one attempt": (REPEATS, with_arrivals(arrival(), arrival())),
    "an attempt that surely failed arrived": (
        REPEATS,
        replace(GOOD, attempts=(replace(FIRST, error_type="TIMEOUT", uncertain=False), SECOND)),
    ),
    "an unrecorded attempt arrived": (REPEATS, with_arrivals(arrival(), arrival(3))),
    "two entries in the stream": (REPEATS, with_arrivals(in_stream(), in_stream())),
    "an entry without a delivery": (REPEATS, with_arrivals(in_stream(), in_stream(""))),
    "it arrived early": (EARLY, with_arrivals(arrival(at=-2 * MS, grain=MS))),
    "a state was skipped": (ORDER, with_changes(*CHANGES[:3], CHANGES[4])),
    "an illegal change": (ORDER, with_changes(CHANGES[0], replace(CHANGES[4], before=S.QUEUED, attempt_before=2))),
    "a change after the end": (
        ORDER,
        with_changes(*CHANGES, replace(CHANGES[3], before=S.SUCCESS, after=S.SUCCESS, attempt_after=1)),
    ),
    "a claim that counts no attempt": (
        ORDER,
        with_changes(CHANGES[0], replace(CHANGES[1], attempt_after=0), *CHANGES[2:]),
    ),
    "a running execution counts an attempt": (
        ORDER,
        with_changes(
            *CHANGES[:2], replace(CHANGES[1], before=S.RUNNING, attempt_before=1, attempt_after=2), *CHANGES[2:]
        ),
    ),
    "the history ends elsewhere": (ORDER, with_changes(*CHANGES[:4])),
    "a cancelled execution arrived": (CANCELLED, with_arrivals(arrival(), arrival(execution_id="t1"))),
    "an attempt found no key": (OURS, replace(GOOD, attempts=(replace(FIRST, error_type=OUR_ERROR), SECOND))),
    "a locked row stopped all rows": (LOCKS, replace(GOOD, locks=(RowLock("e1", DUE, DUE + MINUTE, 0),))),
    "a secret is in a log": (SECRETS, replace(GOOD, leaks=("the log web.log",))),
    "a good request was refused": (API, replace(GOOD, conduct=Conduct(refused=("POST /jobs: 500",)))),
    "no answer at all": (API, replace(GOOD, conduct=Conduct(unanswered=1))),
    "an answer took too long": (API, replace(GOOD, conduct=Conduct(slowest_answer=35.0))),
    "a process ended": (PROCESSES, replace(GOOD, conduct=Conduct(unexpected_ends=("web ended",)))),
    **ending_breaches.BREACHES,
}


def broken(evidence: Evidence) -> set[str]:
    return {result.name for result in run_checks(evidence) if not result.holds}


def test_request_to_cancel_a_running_execution_is_no_breach() -> None:
    asked = replace(CHANGES[1], before=S.RUNNING, attempt_before=CHANGES[1].attempt_after)
    assert broken(with_changes(*CHANGES[:2], replace(asked, worker_before=asked.worker_after), *CHANGES[2:])) == set()


@each_case("name", BREACHES)
def test_breach_is_found(name: str) -> None:
    check, evidence = BREACHES[name]
    assert check in broken(evidence)


def test_every_check_has_an_example_of_a_breach() -> None:
    shown = {check for check, _evidence in BREACHES.values()}
    assert shown | FLOW | WORKFLOWS == {result.name for result in run_checks(GOOD)}


@each_case(
    "evidence",
    [
        GOOD,
        with_arrivals(arrival(1, taken=False), arrival(2)),
        with_arrivals(arrival(2), arrival(1, at=900 * MS)),
        with_arrivals(arrival(at=-MS, grain=MS)),
        with_arrivals(in_stream()),
        replace(GOOD, transitions=None),
        with_storm(),
        replace(GOOD, locks=(RowLock("e1", DUE, DUE + MINUTE, 1),)),
        with_changes(
            *CHANGES[:2],
            TransitionRow("e1", S.RUNNING, S.QUEUED, 1, 0, "w1", "w1"),
            TransitionRow("e1", S.QUEUED, S.RUNNING, 0, 1, "w1", "w1", True),
            *CHANGES[2:],
        ),
    ],
    ids=[
        "good",
        "refused first",
        "a late send of a worker that lost its claim",
        "cut timestamp",
        "a stream",
        "no recorded transitions",
        "a storm",
        "a locked row",
        "released",
    ],
)
def test_legal_evidence_is_no_breach(evidence: Evidence) -> None:
    assert broken(evidence) == set()


@each_case("name", ending_breaches.LEGAL)
def test_legal_ends_are_no_breach(name: str) -> None:
    assert broken(ending_breaches.LEGAL[name]) == set()


@each_case("after", [S.QUEUED, S.PENDING, S.CANCELLED])
def test_release_may_subtract_the_attempt(after: ExecutionStatus) -> None:
    """A release puts an execution of a paused job on hold, and ends an execution of a cancelled job."""
    released = TransitionRow("e1", S.RUNNING, after, 1, 0, "w1", "w1")
    assert ORDER not in broken(replace(with_execution(status=after), transitions=(*CHANGES[:2], released, *UNCHANGED)))


def test_execution_may_fail_without_attempts_left_or_with_a_permanent_error() -> None:
    used_up = replace(with_execution(status=S.FAILED, max_attempts=2), transitions=None)
    forbidden = replace(
        with_execution(status=S.FAILED),
        transitions=None,
        attempts=(FIRST, AttemptRow("e1", 2, AttemptStatus.FAILED, "w2", "HTTP_ERROR", retryable=False)),
        arrivals=(),
    )
    # The fabricated failures left no dead letters.
    assert broken(replace(used_up, arrivals=())) == {ending_breaches.LETTERS}
    assert broken(forbidden) == {ending_breaches.LETTERS}


def test_repeats_are_counted_by_their_cause() -> None:
    assert repeats_by_cause(GOOD) == {"WORKER_LOST": 1}
    assert repeats_by_cause(with_arrivals(arrival(), arrival())) == {"unexplained": 1}
    assert repeats_by_cause(with_arrivals(arrival(1, taken=False), arrival())) == {}


def test_lateness_is_measured_at_the_first_arrival() -> None:
    assert lateness(GOOD)["HTTP"]["p50"] == 5.0


def test_lateness_leaves_out_executions_that_wait_by_design() -> None:
    limited = replace(GOOD, limits={EXECUTION.endpoint: Limit(max_in_flight=1)})
    paused = replace(GOOD, queue_pauses={EXECUTION.endpoint: ()})
    assert (lateness(limited), lateness(paused)) == ({}, {})
