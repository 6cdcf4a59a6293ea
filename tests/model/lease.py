"""Lease and fence as a small state machine: one execution, two workers, schedulers, a network that delays and repeats.

Each step is one statement of `app.queue.executions` or one thing that a process does by itself. A worker may do nothing
for any time (it is frozen), die at any step, and what it sent to the database may arrive late, twice, or never.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

LEASE = 2  # ticks
MAX_ATTEMPTS = 2
MOST_CLAIMS = 3  # hand-backs spend no attempt: without a bound there would be no end
WORKERS = (0, 1)


class Claim(NamedTuple):
    """A claim; `serial` is the instant of it, which is unique."""

    worker: int
    attempt: int
    serial: int


class Mail(NamedTuple):
    """A statement on its way to the database: "ok", "failed" or "hand back"."""

    kind: str
    claim: Claim


class Attempt(NamedTuple):
    """A row of `attempts`."""

    number: int
    serial: int
    ended: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What protects the execution; each can be taken away to see what it is for."""

    fence_worker: bool = True  # conclude and hand back: e.worker_id = :worker
    fence_attempt: bool = True  # ... e.attempt_count = :attempt
    fence_instant: bool = True  # hand back only: e.started_at = :claimed_at
    reclaim_needs_lost_lease: bool = True
    expired_lease_stays_expired: bool = True
    claim_needs_lease: bool = True
    second_chance: bool = True  # the first lost worker is followed by another attempt


@dataclass(frozen=True, slots=True)
class State:
    """Leases count down to 0, so that time needs no end."""

    status: str = "QUEUED"
    row: Claim | None = None  # worker, attempt and instant of the row; kept after the end
    attempts: int = 0
    claims: int = 0
    leases: tuple[int, ...] = (LEASE, LEASE)
    alive: tuple[bool, ...] = (True, True)
    hands: tuple[tuple[Claim, bool] | None, ...] = (None, None)  # the claim a worker holds, and whether it has sent
    mail: frozenset[Mail] = frozenset()
    recorded: tuple[Attempt, ...] = ()
    sent: tuple[Claim, ...] = ()
    fault: str | None = None  # what went wrong in the step that led here


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Everything that can happen next."""
    if any(state.leases):
        yield "a tick passes", replace(state, leases=tuple(max(0, left - 1) for left in state.leases))
    yield from _reclaim(state, rules)
    for mail in state.mail:
        arrived = _arrive(state, mail, rules)
        yield f"{mail} arrives, and may again", arrived
        yield f"{mail} arrives or is lost", replace(arrived, mail=state.mail - {mail})
    for worker in WORKERS:
        if state.alive[worker]:
            yield from _of_worker(state, worker, rules)


def _of_worker(state: State, worker: int, rules: Rules) -> Iterator[tuple[str, State]]:
    yield f"{worker} dies", _gone(state, worker)
    if state.leases[worker] or not rules.expired_lease_stays_expired:
        yield f"{worker} renews", replace(state, leases=_put(state.leases, worker, LEASE))
    else:
        yield f"{worker} learns that its lease is over", _gone(state, worker)
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
        yield f"{worker} hands back", replace(idle, mail=state.mail | {Mail("hand back", claim)})
        return
    for kind in ("ok", "failed"):
        yield f"{worker} ends: {kind}", replace(idle, mail=state.mail | {Mail(kind, claim)})


def _claim(state: State, worker: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """CLAIM; its answer may be lost, and then what the row says is handed back as a stray."""
    row = state.row
    if state.status == "RUNNING" and row is not None and row.worker == worker:
        if not any(mail.claim == row for mail in state.mail):
            yield f"{worker} finds a stray", replace(state, mail=state.mail | {Mail("hand back", row)})
        return
    if (
        state.status != "QUEUED"
        or state.attempts >= _most_attempts(state.recorded, rules)
        or state.claims >= MOST_CLAIMS
    ):
        return
    if not state.leases[worker] and rules.claim_needs_lease:
        return
    claim = Claim(worker, state.attempts + 1, state.claims + 1)
    fault = None if state.leases[worker] else "claimed without a lease"
    taken = replace(
        state, status="RUNNING", row=claim, attempts=claim.attempt, claims=claim.serial, fault=fault or state.fault
    )
    yield f"{worker} claims, the answer is lost", taken
    yield f"{worker} claims", replace(taken, hands=_put(state.hands, worker, (claim, False)))


def _arrive(state: State, mail: Mail, rules: Rules) -> State:
    """CONCLUDE or RELEASE, fenced."""
    row, claim = state.row, mail.claim
    if state.status != "RUNNING" or row is None:
        return state
    if rules.fence_worker and row.worker != claim.worker:
        return state
    if rules.fence_attempt and row.attempt != claim.attempt:
        return state
    if mail.kind == "hand back":
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
    following = "QUEUED" if state.attempts < _most_attempts(recorded, rules) else "FAILED"
    return replace(state, status=status or following, recorded=recorded)


def _most_attempts(recorded: tuple[Attempt, ...], rules: Rules) -> int:
    """One more when the first lost worker had the last attempt: it may have sent nothing."""
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
        return "two workers with a valid lease hold it"
    if [attempt.number for attempt in state.recorded] != list(range(1, len(state.recorded) + 1)):
        return "attempts have gaps"
    if len({claim.attempt for claim in state.sent}) != len(state.sent):
        return "two sends under one attempt number"
    if state.status in {"SUCCESS", "FAILED"} and not {c.serial for c in state.sent} <= {
        a.serial for a in state.recorded
    }:
        return "a send that no attempt tells of"
    return _wrong_end(state)


def _wrong_end(state: State) -> str | None:
    if state.status == "FAILED" and _losses(state.recorded) == [state.attempts]:
        return "the first lost worker ends it"
    if len(state.recorded) > MAX_ATTEMPTS + 1:
        return "more than one attempt beyond the policy"
    return None
