"""Lease and fence as a small state machine: one execution, two workers, schedulers and an unreliable network.

Each step is one statement of `app.queue.executions` or one local action of a process. A worker may freeze for any time
or die at any step. Its messages to the database may arrive late, twice, or never.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

LEASE = 2  # ticks
MAX_ATTEMPTS = 2
MAX_CLAIMS = 3  # releases spend no attempt, so without a bound the model would be infinite
WORKERS = (0, 1)


class Claim(NamedTuple):
    """A claim; `serial` stands for its instant, which is unique."""

    worker: int
    attempt: int
    serial: int


class Mail(NamedTuple):
    """A statement on its way to the database: "ok", "failed" or "release"."""

    kind: str
    claim: Claim


class Attempt(NamedTuple):
    """A row of `attempts`."""

    number: int
    serial: int
    ended: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Protective rules; a test disables one rule at a time to show that it is needed."""

    fence_worker: bool = True  # complete and release: e.worker_id = :worker
    fence_attempt: bool = True  # ... e.attempt_count = :attempt
    fence_instant: bool = True  # release only: e.started_at = :claimed_at
    reclaim_needs_lost_lease: bool = True
    expired_lease_stays_expired: bool = True
    claim_needs_lease: bool = True
    second_chance: bool = True  # another attempt follows the first lost worker


@dataclass(frozen=True, slots=True)
class State:
    """State of the model. Leases count down to 0, so that time is bounded."""

    status: str = "QUEUED"
    row: Claim | None = None  # worker, attempt and instant of the row; kept after completion
    attempts: int = 0
    claims: int = 0
    leases: tuple[int, ...] = (LEASE, LEASE)
    alive: tuple[bool, ...] = (True, True)
    hands: tuple[tuple[Claim, bool] | None, ...] = (None, None)  # claim of each worker, and whether it has sent
    mail: frozenset[Mail] = frozenset()
    recorded: tuple[Attempt, ...] = ()
    sent: tuple[Claim, ...] = ()
    fault: str | None = None  # fault of the step that led to this state


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Yield each possible next step and its state."""
    if any(state.leases):
        yield "a tick passes", replace(state, leases=tuple(max(0, left - 1) for left in state.leases))
    yield from _reclaim(state, rules)
    for mail in state.mail:
        arrived = _arrive(state, mail, rules)
        yield f"{mail} arrives, and may again", arrived
        yield f"{mail} arrives or is lost", replace(arrived, mail=state.mail - {mail})
    for worker in WORKERS:
        if state.alive[worker]:
            yield from _worker_steps(state, worker, rules)


def _worker_steps(state: State, worker: int, rules: Rules) -> Iterator[tuple[str, State]]:
    yield f"{worker} dies", _gone(state, worker)
    if state.leases[worker] or not rules.expired_lease_stays_expired:
        yield f"{worker} renews", replace(state, leases=_put(state.leases, worker, LEASE))
    else:
        yield f"{worker} finds its lease expired", _gone(state, worker)
    hand = state.hands[worker]
    if hand is None:
        yield from _claim(state, worker, rules)
        return
    claim, is_sent = hand
    idle = replace(state, hands=_put(state.hands, worker, None))
    if not is_sent:
        yield (
            f"{worker} sends",
            replace(state, hands=_put(state.hands, worker, (claim, True)), sent=(*state.sent, claim)),
        )
        yield f"{worker} releases", replace(idle, mail=state.mail | {Mail("release", claim)})
        return
    for kind in ("ok", "failed"):
        yield f"{worker} completes: {kind}", replace(idle, mail=state.mail | {Mail(kind, claim)})


def _claim(state: State, worker: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """CLAIM; if its answer is lost, the worker finds the claim in the row and releases it as an orphan."""
    row = state.row
    if state.status == "RUNNING" and row is not None and row.worker == worker:
        if not any(mail.claim == row for mail in state.mail):
            yield f"{worker} finds an orphan", replace(state, mail=state.mail | {Mail("release", row)})
        return
    if state.status != "QUEUED" or state.attempts >= _max_attempts(state.recorded, rules) or state.claims >= MAX_CLAIMS:
        return
    if not state.leases[worker] and rules.claim_needs_lease:
        return
    claim = Claim(worker, state.attempts + 1, state.claims + 1)
    fault = None if state.leases[worker] else "claimed without a lease"
    taken = replace(
        state, status="RUNNING", row=claim, attempts=claim.attempt, claims=claim.serial, fault=fault or state.fault
    )
    yield f"{worker} claims, but the answer is lost", taken
    yield f"{worker} claims", replace(taken, hands=_put(state.hands, worker, (claim, False)))


def _arrive(state: State, mail: Mail, rules: Rules) -> State:
    """COMPLETE or RELEASE, fenced."""
    row, claim = state.row, mail.claim
    if state.status != "RUNNING" or row is None:
        return state
    if rules.fence_worker and row.worker != claim.worker:
        return state
    if rules.fence_attempt and row.attempt != claim.attempt:
        return state
    if mail.kind == "release":
        if rules.fence_instant and row.serial != claim.serial:
            return state
        after = replace(state, status="QUEUED", attempts=state.attempts - 1)
    else:
        after = _recorded(state, mail.kind, "SUCCESS" if mail.kind == "ok" else None, rules)
    return after if row.serial == claim.serial else replace(after, fault="a stale write took effect")


def _reclaim(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """RECLAIM by any scheduler."""
    if state.status == "RUNNING" and state.row is not None:
        lease = state.leases[state.row.worker]
        if not lease or not rules.reclaim_needs_lost_lease:
            yield "a scheduler reclaims", _recorded(state, "WORKER_LOST", None, rules)


def _recorded(state: State, ended: str, status: str | None, rules: Rules) -> State:
    assert state.row is not None
    recorded = (*state.recorded, Attempt(state.attempts, state.row.serial, ended))
    following = "QUEUED" if state.attempts < _max_attempts(recorded, rules) else "FAILED"
    return replace(state, status=status or following, recorded=recorded)


def _max_attempts(recorded: tuple[Attempt, ...], rules: Rules) -> int:
    """One more attempt if the first lost worker had the last attempt: the worker may have sent nothing."""
    return MAX_ATTEMPTS + int(rules.second_chance and _losses(recorded)[:1] == [MAX_ATTEMPTS])


def _losses(recorded: tuple[Attempt, ...]) -> list[int]:
    return [attempt.number for attempt in recorded if attempt.ended == "WORKER_LOST"]


def _gone(state: State, worker: int) -> State:
    return replace(state, alive=_put(state.alive, worker, False), hands=_put(state.hands, worker, None))


def _put(items: tuple, place: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:place], item, *items[place + 1 :])


def breach_of(state: State) -> str | None:
    """Name the invariant that a state breaks."""
    if state.fault is not None:
        return state.fault
    if sum(hand is not None and state.leases[worker] > 0 for worker, hand in enumerate(state.hands)) > 1:
        return "two workers with a valid lease hold the execution"
    if [attempt.number for attempt in state.recorded] != list(range(1, len(state.recorded) + 1)):
        return "attempts have gaps"
    if len({claim.attempt for claim in state.sent}) != len(state.sent):
        return "two sends under one attempt number"
    if state.status in {"SUCCESS", "FAILED"} and not {c.serial for c in state.sent} <= {
        a.serial for a in state.recorded
    }:
        return "a send without a recorded attempt"
    return _completion_breach(state)


def _completion_breach(state: State) -> str | None:
    if state.status == "FAILED" and _losses(state.recorded) == [state.attempts]:
        return "the first lost worker ends the execution"
    if len(state.recorded) > MAX_ATTEMPTS + 1:
        return "more than one attempt beyond the policy"
    return None
