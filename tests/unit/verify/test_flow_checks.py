"""Each check of flow control finds its breach and accepts legal evidence."""

from dataclasses import replace
from datetime import datetime, timedelta

from app.dev.verify.evidence import (
    AcceptedJob,
    Arrival,
    AttemptRow,
    BreakerChange,
    Evidence,
    ExecutionRow,
    Limit,
    Span,
    StartRate,
    TransitionRow,
)
from app.dev.verify.promise_checks import run_checks
from schema.states import AttemptStatus, BreakerState, EndpointType, Trigger
from tests.cases import each_case
from tests.unit.verify.flow_checks import BREAKERS, FLOW, IN_FLIGHT, ORDER, PRIORITY, PROGRESS, RATE
from tests.unit.verify.good_run import DUE, MS, S

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
SECOND = 1000


class Run:
    """Builds the evidence of executions with one attempt each; times are milliseconds after DUE."""

    def __init__(self, limit: Limit | None = None, **flow: object) -> None:
        self.flow = {"limits": {} if limit is None else {"limited": limit}, **flow}
        self.executions: list[ExecutionRow] = []
        self.attempts: list[AttemptRow] = []
        self.arrivals: list[Arrival] = []
        self.transitions: list[TransitionRow] = []

    def ran(self, since: int, until: int, *, due: int = 0, **execution: object) -> "Run":
        """Add an execution with these times of due, start and end; its request is open from start to end."""
        name, started, ended = f"e{len(self.executions)}", at(since), at(until)
        row = ExecutionRow(name, name, EndpointType.HTTP, S.SUCCESS, 1, 3, at(due), "limited")
        self.executions.append(replace(row, **execution))  # type: ignore[arg-type]
        self.attempts.append(
            AttemptRow(name, 1, AttemptStatus.SUCCESS, "w1", started_at=started, ended_at=ended),
        )
        self.arrivals.append(Arrival(EndpointType.HTTP, name, 1, started, ended=ended))
        return self

    def evidence(self, **changes: object) -> Evidence:
        evidence = Evidence(
            accepted=tuple(AcceptedJob(row.job_id, row.job_id, Trigger.IMMEDIATE) for row in self.executions),
            jobs=frozenset(row.job_id for row in self.executions),
            executions=tuple(self.executions),
            attempts=tuple(self.attempts),
            transitions=None,
            arrivals=tuple(self.arrivals),
        )
        return replace(evidence, **self.flow, **changes)  # type: ignore[arg-type]


def at(milliseconds: int) -> datetime:
    return DUE + milliseconds * MS


def lost(evidence: Evidence) -> Evidence:
    attempts = tuple(replace(attempt, error_type="WORKER_LOST") for attempt in evidence.attempts)
    return replace(evidence, attempts=attempts)


def unsent(evidence: Evidence, name: str) -> Evidence:
    """Return the evidence of a lost worker whose request for one execution never arrived."""
    attempts = (
        replace(attempt, status=AttemptStatus.FAILED, error_type="WORKER_LOST")
        if attempt.execution_id == name
        else attempt
        for attempt in evidence.attempts
    )
    executions = (replace(row, status=S.CANCELLED) if row.execution_id == name else row for row in evidence.executions)
    arrivals = (arrival for arrival in evidence.arrivals if arrival.execution_id != name)
    return replace(evidence, attempts=tuple(attempts), executions=tuple(executions), arrivals=tuple(arrivals))


def running(*numbers: int) -> tuple[TransitionRow, ...]:
    """Return the changes of executions that were claimed (1, 2 …) and completed (-1, -2 …) in this order."""
    return tuple(
        TransitionRow(f"e{number - 1}", S.QUEUED, S.RUNNING, 0, 1, None, "w1", True)
        if number > 0
        else TransitionRow(f"e{-number - 1}", S.RUNNING, S.SUCCESS, 1, 1, "w1", "w1")
        for number in numbers
    )


def paced(*instants: int, pace: StartRate, **flow: object) -> Evidence:
    run = Run(Limit(pace=pace), **flow)
    for instant in instants:
        run.ran(instant, instant + 1, due=instant)
    return run.evidence()


def mixed(*priorities: int, apart: int = 100) -> Evidence:
    """Return the evidence of starts with these priorities, all due at once."""
    run = Run()
    for number, priority in enumerate(priorities):
        run.ran(number * apart, number * apart + 1, priority=priority)
    return run.evidence()


def with_breaker(
    *changes: tuple[int, BreakerState, BreakerState], starts: tuple[int, ...] = (), **flow: object
) -> Evidence:
    run = Run(
        **flow,
        breaker_changes=tuple(BreakerChange("target", before, after, at(when)) for when, before, after in changes),
        breakers={"target": "limited"},
    )
    for start in starts:
        run.ran(start, start + 1, due=start)
    return run.evidence()


TWO = Limit(max_in_flight=2)
BUCKET = StartRate(10, timedelta(seconds=1), burst=3)
WINDOW = StartRate(3, timedelta(seconds=10))
OVERLAP = Run(TWO).ran(0, 100).ran(10, 90).ran(20, 30)
LEGAL_STEPS = ((0, CLOSED, OPEN), (5000, OPEN, HALF_OPEN), (5100, HALF_OPEN, OPEN), (9000, OPEN, HALF_OPEN))
HEALED = (9100, HALF_OPEN, CLOSED)

BREACHES: dict[str, tuple[str, Evidence]] = {
    "three ran where two may, by their times": (IN_FLIGHT, OVERLAP.evidence(arrivals=())),
    "three ran where two may, by the changes": (
        IN_FLIGHT,
        Run(TWO).ran(0, 1).ran(2, 3).ran(4, 5).evidence(transitions=running(1, 2, 3, -1, -2, -3), arrivals=()),
    ),
    "three were open at the receiver": (
        IN_FLIGHT,
        OVERLAP.evidence(transitions=running(1, -1, 2, -2, 3, -3)),
    ),
    "two with the same key": (
        IN_FLIGHT,
        Run(Limit(max_in_flight=9, per_key=1)).ran(0, 9, limit_key="=a").ran(1, 2, limit_key="=a").evidence(),
    ),
    "a burst larger than the bucket": (RATE, paced(*range(0, 80, 10), pace=BUCKET)),
    "a rate slightly above the limit": (RATE, paced(*range(0, 10 * SECOND, 90), pace=BUCKET)),
    "four in a window of three": (RATE, paced(0, 1, 2, 9 * SECOND, pace=WINDOW)),
    "too many arrivals at the receiver only": (
        RATE,
        replace(
            paced(*range(0, 8 * SECOND, SECOND), pace=BUCKET),
            arrivals=tuple(Arrival(EndpointType.HTTP, f"e{n}", 1, at(n)) for n in range(8)),
        ),
    ),
    "too many arrivals at the receiver within a window": (
        RATE,
        replace(
            paced(*range(0, 16 * SECOND, 4 * SECOND), pace=WINDOW),
            arrivals=tuple(Arrival(EndpointType.HTTP, f"e{n}", 1, at(n)) for n in range(4)),
        ),
    ),
    "low priorities first": (PRIORITY, mixed(*[10] * 30, *[200] * 10)),
    "half of all starts have a low priority": (PRIORITY, mixed(*[200, 10] * 30)),
    "the newest first": (ORDER, Run().ran(0, 1, due=-500).ran(4000, 4001, due=-2000).evidence()),
    "no start although a row is due": (
        PROGRESS,
        Run().ran(0, 1).ran(5001, 5002, due=0).evidence(),
    ),
    "no start until five seconds after the due time": (PROGRESS, Run().ran(5001, 5002).evidence()),
    "a state was skipped": (BREAKERS, with_breaker((0, CLOSED, OPEN), (9, HALF_OPEN, CLOSED))),
    "it was half open without having been open": (BREAKERS, with_breaker((0, CLOSED, HALF_OPEN))),
    "starts continued while it was open": (BREAKERS, with_breaker(*LEGAL_STEPS, starts=(1001,))),
    "starts continued for longer than a lease lasts": (
        BREAKERS,
        with_breaker((0, CLOSED, OPEN), starts=(5001,), disturbed=(Span(at(900), at(950)),)),
    ),
    "the request of a lost worker was a second probe": (
        BREAKERS,
        lost(with_breaker(*LEGAL_STEPS, starts=(5010, 5020))),
    ),
    "two probes": (BREAKERS, with_breaker(*LEGAL_STEPS, starts=(5010, 5020))),
    "two probes before it closed": (
        BREAKERS,
        with_breaker(*LEGAL_STEPS, (9900, HALF_OPEN, CLOSED), starts=(9010, 9020)),
    ),
}

LEGAL: dict[str, Evidence] = {
    "two ran where two may": Run(TWO).ran(0, 100).ran(10, 90).ran(90, 95).evidence(),
    "the request of a lost worker stays open": lost(OVERLAP.evidence(transitions=running(1, -1, 2, -2, 3, -3))),
    "different keys are counted separately": (
        Run(Limit(per_key=1)).ran(0, 9, limit_key="=a").ran(1, 2, limit_key="=b").evidence()
    ),
    "a full bucket and its rate": paced(0, 0, 0, *range(100, 5 * SECOND, 100), pace=BUCKET),
    "a full window": paced(0, 1, 2, 10 * SECOND, 10 * SECOND, 10 * SECOND, pace=WINDOW),
    "a start of a full window took long to arrive": replace(
        paced(0, 1, 2, 10 * SECOND, pace=WINDOW),
        arrivals=tuple(
            Arrival(EndpointType.HTTP, f"e{n}", 1, at(when)) for n, when in enumerate((900, 901, 902, 10000))
        ),
    ),
    "a receiver that stood still got the starts of a bucket at once": replace(
        paced(*range(0, 3 * SECOND, 100), pace=BUCKET),
        arrivals=tuple(Arrival(EndpointType.HTTP, f"e{n}", 1, at(3 * SECOND)) for n in range(30)),
    ),
    "one of eight starts has a low priority": mixed(*[*[200] * 7, 10] * 8, *[10] * 9),
    "different keys have no order": Run()
    .ran(0, 1, limit_key="=a", priority=1)
    .ran(4000, 4001, limit_key="=b")
    .evidence(),
    "each priority has its own order": (Run().ran(0, 1, due=-500).ran(4000, 4001, due=-2000, priority=1).evidence()),
    "each shard has its own order": Run().ran(0, 1, due=-4900).ran(4000, 4001, due=-4999, shard=1).evidence(),
    "a fault delayed the start": Run(disturbed=(Span(at(0), at(10)),)).ran(0, 1).ran(6000, 6001, due=0).evidence(),
    "nothing was due": Run().ran(0, 1).ran(9000, 9001, due=9000).evidence(),
    "its breaker was open": with_breaker(*LEGAL_STEPS, HEALED, starts=(0, 900, 5010, 9010, 9101, 9102)),
    "a start after the close is recorded too early": with_breaker(*LEGAL_STEPS, HEALED, starts=(9010, 9099)),
    "the probe of the next worker is recorded too early": with_breaker(
        (0, CLOSED, OPEN), (5000, OPEN, HALF_OPEN), (9000, HALF_OPEN, HALF_OPEN), starts=(5010, 8990)
    ),
    "a worker that was cut off started beside the probe": with_breaker(
        (0, CLOSED, OPEN),
        (2000, OPEN, HALF_OPEN),
        (2600, HALF_OPEN, OPEN),
        starts=(2010, 2500),
        disturbed=(Span(at(900), at(950)),),
    ),
    "a lost worker had claimed an execution and not sent it": unsent(
        with_breaker(*LEGAL_STEPS, starts=(5010, 5020)), "e1"
    ),
    "its worker could not read the state": with_breaker(
        (0, CLOSED, OPEN), starts=(4999,), disturbed=(Span(at(900), at(950)),)
    ),
}


def broken(evidence: Evidence) -> set[str]:
    return {result.name for result in run_checks(evidence) if result.name in FLOW and not result.holds}


@each_case("name", BREACHES)
def test_breach_is_found(name: str) -> None:
    check, evidence = BREACHES[name]
    assert broken(evidence) == {check}


@each_case("name", LEGAL)
def test_legal_evidence_is_no_breach(name: str) -> None:
    assert broken(LEGAL[name]) == set()


def test_released_or_paused_executions_have_no_order() -> None:
    fabricated = Run().ran(0, 1, due=-4900).ran(4000, 4001, due=-9000)
    evidence = fabricated.evidence(arrivals=())
    assert broken(evidence) == {ORDER, PROGRESS}
    back = TransitionRow("e1", S.RUNNING, S.QUEUED, 1, 0, "w1", "w1")
    assert broken(replace(evidence, transitions=(back,))) == set()
    stormed = replace(evidence.accepted[1], is_stormed=True)
    assert broken(replace(evidence, accepted=(evidence.accepted[0], stormed))) == set()


def test_every_check_has_an_example_of_a_breach() -> None:
    assert {check for check, _evidence in BREACHES.values()} == FLOW
