"""Schedule of the faults: pure, and the same for the same seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from app.dev.verify.options import FaultKind, Options

CALM_SHARE = 0.85  # of the duration; the rest lets the load end over a whole system
_LONGEST_GAP, _SHORTEST_GAP = 15.0, 2.5
_FIRST_AT = 2.0


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


_ACTS = {
    FaultKind.KILL_WORKER: (Act.KILL, Act.FREEZE, Act.KILL_CHILD, Act.TERMINATE),
    FaultKind.KILL_SCHEDULER: (Act.KILL, Act.FREEZE, Act.TERMINATE),
    FaultKind.RESTART_DATABASE: (Act.RESTART_IMMEDIATE, Act.CRASH),
    FaultKind.PARTITION: (Act.CUT, Act.DROP, Act.STALL),
}


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


def schedule(options: Options, processes: Sequence[str], lease: float) -> list[Fault]:
    """Plan the faults of a run: every chosen kind in turn, in an order and at instants that the seed decides."""
    dice = random.Random(options.seed)
    kinds = _shuffled_rounds(sorted(options.faults), dice)
    acts = {kind: cycle(_ACTS[kind]) for kind in options.faults}
    gap = min(_LONGEST_GAP, max(_SHORTEST_GAP, options.duration / 10))
    at, faults = _FIRST_AT, list[Fault]()
    while options.faults and at < options.duration * CALM_SHARE:
        kind = next(kinds)
        act = next(acts[kind])
        faults.append(Fault(at, act, _target(kind, processes, dice), _lasting(act, lease, dice)))
        at += gap * dice.uniform(0.6, 1.4)
    return faults


def _shuffled_rounds(kinds: Sequence[FaultKind], dice: random.Random) -> Iterator[FaultKind]:
    while kinds:
        yield from dice.sample(kinds, len(kinds))


def _target(kind: FaultKind, processes: Sequence[str], dice: random.Random) -> str:
    if kind is FaultKind.RESTART_DATABASE:
        return "database"
    prefix = {FaultKind.KILL_WORKER: "worker", FaultKind.KILL_SCHEDULER: "scheduler"}.get(kind, "")
    return dice.choice([name for name in processes if name.startswith(prefix)])


def _lasting(act: Act, lease: float, dice: random.Random) -> float:
    """Choose how long it lasts; what must outlast a lease does."""
    if act in {Act.FREEZE, Act.DROP}:
        return lease + dice.uniform(1.0, 3.0)
    return {Act.CUT: dice.uniform(0.5, 3.0), Act.STALL: 2.0}.get(act, 0.0)
