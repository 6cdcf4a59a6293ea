"""Critical path: each node with the parent that ended last, up to the end of the workflow or its open node."""

from datetime import timedelta

import pytest

from app.features.workflows.stored.critical_path import TimedNode, critical_path
from app.kernel.formats import EPOCH
from schema.states import NodeState

NOW = EPOCH + timedelta(seconds=100)


def timed(number: int, ready: int, started: int | None = None, ended: int | None = None) -> TimedNode:
    """Return a node called by its number; times are seconds."""
    started_at, ended_at = (None if each is None else EPOCH + timedelta(seconds=each) for each in (started, ended))
    state = NodeState.RUNNING if ended is None else NodeState.SUCCEEDED
    times = {"ready_at": EPOCH + timedelta(seconds=ready), "started_at": started_at, "ended_at": ended_at}
    return TimedNode(number=number, name=str(number), state=state, now=NOW, **times)


START, QUICK, SLOW = timed(1, 0, 0, 1), timed(2, 1, 1, 2), timed(3, 1, 4, 9)
DIAMOND = [(1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]


@pytest.mark.parametrize(
    ("nodes", "path"),
    [
        ([], []),
        ([START], [1]),
        ([START, QUICK, SLOW, timed(4, 9, 9, 10)], [1, 3, 4]),
        ([START, QUICK, SLOW, timed(4, 9)], [1, 3, 4]),
        ([START, QUICK, timed(3, 1, 4)], [1, 3]),
        ([START, timed(2, 1), timed(3, 2)], [1, 2]),
    ],
    ids=["nothing", "single", "ended", "open end", "open middle", "longest ready"],
)
def test_path_follows_the_parents_that_ended_last(nodes: list[TimedNode], path: list[int]) -> None:
    assert [node.number for node in critical_path(nodes, DIAMOND)] == path


def test_waiting_and_running_are_apart() -> None:
    assert (SLOW.waited_ms, SLOW.ran_ms) == (3_000, 5_000)
    assert (timed(4, 90).waited_ms, timed(4, 90).ran_ms) == (10_000, 0)
    assert (timed(4, 90, 95).waited_ms, timed(4, 90, 95).ran_ms) == (5_000, 5_000)
