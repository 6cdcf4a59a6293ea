"""Signs of life of chores: what stands still is named, and what is merely slow, or fails, is not."""

import threading
from contextlib import suppress

from app.scheduler.chore_heartbeats import Signs

PATIENCE = 3


def looks(signs: Signs, number: int) -> list[str | None]:
    return [signs.look() for _ in range(number)]


def test_a_chore_that_stands_still_is_named_once_patience_is_over() -> None:
    signs = Signs(PATIENCE)
    with signs.running("promote"):
        assert looks(signs, PATIENCE) == [None] * PATIENCE
        assert signs.look() == "its chore promote stood still"


def test_signs_are_those_of_the_thread_that_shows_them() -> None:
    """A long run that goes on from statement to statement is well; another one beside it is not."""
    signs, runs, ends = Signs(PATIENCE), threading.Event(), threading.Event()

    def stand_still() -> None:
        with signs.running("materialize"):
            runs.set()
            ends.wait(60)

    with signs.running("prune"):
        for _ in range(3 * PATIENCE):
            signs.show()
            signs.look()
        other = threading.Thread(target=stand_still)
        other.start()
        assert runs.wait(60)
        for _ in range(PATIENCE):
            signs.show()
            assert signs.look() is None
        signs.show()
        assert signs.look() == "its chore materialize stood still"
        ends.set()
        other.join()


def test_runs_that_fail_again_and_again_are_signs() -> None:
    """As all do while the database is away."""
    signs = Signs(PATIENCE)
    for _ in range(3 * PATIENCE):
        with suppress(ZeroDivisionError), signs.running("promote"):
            assert 1 / 0
        assert signs.look() is None


def test_a_process_that_starts_nothing_is_stuck() -> None:
    signs = Signs(PATIENCE)
    with signs.running("promote"):
        pass
    signs.show()
    assert looks(signs, PATIENCE + 1) == [*[None] * PATIENCE, "it started no chore"]
