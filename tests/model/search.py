"""Breadth-first search of all states that a model can reach, with the shortest path to the first breach."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Result(Generic[S]):
    """Number of states found; for a breach, the broken invariant and the steps that lead to it."""

    states: int
    breach: str | None = None
    trace: tuple[str, ...] = ()


def explore(
    first: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    breach_of: Callable[[S], str | None],
    *,
    max_states: int = 2_000_000,
) -> Result[S]:
    """Search breadth-first until all states are visited or a state breaks an invariant."""
    came_from: dict[S, tuple[str, S] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        breach = breach_of(state)
        if breach is not None:
            return Result(len(came_from), breach, _trace(came_from, state))
        for name, successor in steps(state):
            if successor not in came_from:
                came_from[successor] = (name, state)
                queue.append(successor)
        if len(came_from) > max_states:
            raise OverflowError(f"more than {max_states} states")
    return Result(len(came_from))


def _trace(came_from: dict[S, tuple[str, S] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    step = came_from[state]
    while step is not None:
        names.append(step[0])
        step = came_from[step[1]]
    return tuple(reversed(names))
