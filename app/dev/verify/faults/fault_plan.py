"""Schedule of the faults, reproducible by its seed."""

import random
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from app.dev.verify.verify_options import FaultKind, Options

CALM_SHARE = 0.85  # of the duration; the load of the remaining time meets a healthy system
_MAX_GAP, _MIN_GAP = 15.0, 2.0
_MAX_STRETCH = 1.4  # of a gap
_FIRST_AT = 2.0
_MAX_CROWD_SECONDS = 60.0  # until all deliveries of a crowd are open


class Act(StrEnum):
    """One action on one target."""

    KILL = "kill -9"
    KILL_CHILD = "kill -9 of a child"
    TERMINATE = "TERM"
    FREEZE = "STOP, then CONT"
    RESTART_IMMEDIATE = "restart -m immediate"
    CRASH = "kill -9 and start"
    CUT = "connections refused"
    STALL = "nothing passes"
    DROP = "everything swallowed, then reset"
    READ_ONLY = "read-only"
    LOCK_ROW = "a row locked"
    LOCK_JOB = "a repeating job locked"
    LOCK_LOST = "an execution locked, then kill -9 of its worker"
    LOCK_LIMITER = "a limiter locked"
    LOCK_EVENT = "a completion event locked"
    LOCK_WORKER = "the row of a worker locked"
    HANG = "jobs for a receiver that hangs"
    RESTART_LOADED = "restart under open deliveries"
    ROTATE = "next step of a key rotation"


LOCKS = (Act.LOCK_ROW, Act.LOCK_JOB, Act.LOCK_LOST, Act.LOCK_LIMITER, Act.LOCK_EVENT, Act.LOCK_WORKER)

# Target and acts of each kind; the target is a prefix of process names, or the name of another part.
_KINDS = {
    FaultKind.KILL_WORKER: ("worker", (Act.KILL, Act.FREEZE, Act.KILL_CHILD, Act.TERMINATE)),
    FaultKind.KILL_SCHEDULER: ("scheduler", (Act.KILL, Act.FREEZE, Act.TERMINATE)),
    FaultKind.RESTART_DATABASE: ("database", (Act.RESTART_IMMEDIATE, Act.CRASH)),
    FaultKind.PARTITION: ("", (Act.CUT, Act.DROP, Act.STALL)),
    FaultKind.READ_ONLY: ("database", (Act.READ_ONLY,)),
    FaultKind.LOCK_ROWS: ("worker", LOCKS),
    FaultKind.HANG: ("receiver", (Act.HANG,)),
    FaultKind.OPEN_DELIVERIES: ("database", (Act.RESTART_LOADED,)),
    FaultKind.ROTATE_KEYS: ("keys", (Act.ROTATE,)),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault `at` seconds after the start of the load; a lasting fault ends after `seconds`."""

    at: float
    act: Act
    target: str
    seconds: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.target}: {self.act}{lasting}"

    def lasting(self) -> Generator[None]:
        """Yield from now until the time of the fault is over."""
        ends_at = time.monotonic() + self.seconds
        while time.monotonic() < ends_at:
            yield


def schedule(options: Options, processes: Sequence[str], lease: float) -> list[Fault]:
    """Plan the faults of a run: each chosen kind in turn, in an order and at times that the seed decides."""
    dice = random.Random(options.seed)
    kinds = _shuffled_rounds([kind for kind in FaultKind if kind in options.faults], dice)
    acts = {kind: cycle(_KINDS[kind][1]) for kind in options.faults}
    # Even a short run should have each kind once.
    gap_of_each_kind = (options.duration * CALM_SHARE - _FIRST_AT) / _MAX_STRETCH / max(1, len(options.faults))
    gap = min(_MAX_GAP, max(_MIN_GAP, min(options.duration / 10, gap_of_each_kind)))
    at, faults = _FIRST_AT, list[Fault]()
    while options.faults and at < options.duration * CALM_SHARE:
        kind = next(kinds)
        act, (place, _) = next(acts[kind]), _KINDS[kind]
        names = [name for name in processes if name.startswith(place)]
        faults.append(Fault(at, act, dice.choice(names) if names else place, _seconds(act, lease, dice)))
        at += gap * dice.uniform(2 - _MAX_STRETCH, _MAX_STRETCH)
    return faults


def _shuffled_rounds(kinds: Sequence[FaultKind], dice: random.Random) -> Iterator[FaultKind]:
    while kinds:
        yield from dice.sample(kinds, len(kinds))


def _seconds(act: Act, lease: float, dice: random.Random) -> float:
    """Choose a duration: longer than a lease, or short enough for a worker to survive."""
    if act is Act.LOCK_LOST:  # the worker's lease expires, and a scheduler reclaims its other executions
        return 2 * lease + dice.uniform(1.0, 3.0)
    if act in {Act.FREEZE, Act.DROP, *LOCKS}:
        return lease + dice.uniform(1.0, 3.0)
    if act is Act.RESTART_LOADED:
        return _MAX_CROWD_SECONDS
    shorter = {Act.CUT: dice.uniform(0.5, 3.0), Act.STALL: 2.0, Act.READ_ONLY: dice.uniform(1.0, lease - 1.0)}
    return shorter.get(act, 0.0)
