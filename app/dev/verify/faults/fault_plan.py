"""Schedule of the faults: pure, and the same for the same seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from app.dev.verify.verify_options import FaultKind, Options

CALM_SHARE = 0.85  # of the duration; the rest lets the load end over a whole system
_LONGEST_GAP, _SHORTEST_GAP = 15.0, 2.0
_MOST_STRETCH = 1.4  # of a gap
_FIRST_AT = 2.0
_CROWD_SECONDS = 60.0  # at most, until all its deliveries are open


class Act(StrEnum):
    """One thing that is done to one target."""

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
    HANG = "jobs for a receiver that hangs"
    RESTART_LOADED = "restart under open deliveries"
    ROTATE = "next step of a key rotation"


_ACTS = {
    FaultKind.KILL_WORKER: (Act.KILL, Act.FREEZE, Act.KILL_CHILD, Act.TERMINATE),
    FaultKind.KILL_SCHEDULER: (Act.KILL, Act.FREEZE, Act.TERMINATE),
    FaultKind.RESTART_DATABASE: (Act.RESTART_IMMEDIATE, Act.CRASH),
    FaultKind.PARTITION: (Act.CUT, Act.DROP, Act.STALL),
    FaultKind.READ_ONLY: (Act.READ_ONLY,),
    FaultKind.LOCK_ROWS: (Act.LOCK_ROW, Act.LOCK_JOB),
    FaultKind.HANG: (Act.HANG,),
    FaultKind.OPEN_DELIVERIES: (Act.RESTART_LOADED,),
    FaultKind.ROTATE_KEYS: (Act.ROTATE,),
}
# Where a fault strikes that is not done to one of the processes.
_TARGETS = {
    FaultKind.RESTART_DATABASE: "database",
    FaultKind.READ_ONLY: "database",
    FaultKind.LOCK_ROWS: "database",
    FaultKind.OPEN_DELIVERIES: "database",
    FaultKind.HANG: "receiver",
    FaultKind.ROTATE_KEYS: "keys",
}
_PREFIXES = {FaultKind.KILL_WORKER: "worker", FaultKind.KILL_SCHEDULER: "scheduler"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `at` seconds after the load began, for `seconds` if it is one that lasts."""

    at: float
    act: Act
    target: str
    seconds: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.target}: {self.act}{lasting}"


def disturbs(fault: Fault) -> bool:
    """Return whether processes may pause or start anew: jobs for a receiver that hangs must not be felt by others."""
    return fault.act is not Act.HANG


def schedule(options: Options, processes: Sequence[str], lease: float) -> list[Fault]:
    """Plan the faults of a run: every chosen kind in turn, in an order and at instants that the seed decides."""
    dice = random.Random(options.seed)
    kinds = _shuffled_rounds(sorted(options.faults), dice)
    acts = {kind: cycle(_ACTS[kind]) for kind in options.faults}
    gap = _gap(options)
    at, faults = _FIRST_AT, list[Fault]()
    while options.faults and at < options.duration * CALM_SHARE:
        kind = next(kinds)
        act = next(acts[kind])
        faults.append(Fault(at, act, _target(kind, processes, dice), _lasting(act, lease, dice)))
        at += gap * dice.uniform(2 - _MOST_STRETCH, _MOST_STRETCH)
    return faults


def _gap(options: Options) -> float:
    """Return the mean time between two faults: even a short run should have each kind once."""
    for_each_kind = (options.duration * CALM_SHARE - _FIRST_AT) / _MOST_STRETCH / max(1, len(options.faults))
    return min(_LONGEST_GAP, max(_SHORTEST_GAP, min(options.duration / 10, for_each_kind)))


def _shuffled_rounds(kinds: Sequence[FaultKind], dice: random.Random) -> Iterator[FaultKind]:
    while kinds:
        yield from dice.sample(kinds, len(kinds))


def _target(kind: FaultKind, processes: Sequence[str], dice: random.Random) -> str:
    if kind in _TARGETS:
        return _TARGETS[kind]
    return dice.choice([name for name in processes if name.startswith(_PREFIXES.get(kind, ""))])


def _lasting(act: Act, lease: float, dice: random.Random) -> float:
    """Choose how long it lasts; what must outlast a lease does, and what a worker must survive does not."""
    if act in {Act.FREEZE, Act.DROP, Act.LOCK_ROW, Act.LOCK_JOB}:
        return lease + dice.uniform(1.0, 3.0)
    if act is Act.RESTART_LOADED:
        return _CROWD_SECONDS
    shorter = {Act.CUT: dice.uniform(0.5, 3.0), Act.STALL: 2.0, Act.READ_ONLY: dice.uniform(1.0, lease - 1.0)}
    return shorter.get(act, 0.0)
