"""Stalled chores: a chore without progress is named; a slow or failing chore is not."""

import threading
from contextlib import suppress

from app.scheduler.chore_runner import ChoreRunner

PATIENCE = 3


def polls(runner: ChoreRunner, number: int) -> list[str | None]:
    return [runner.poll() for _ in range(number)]


def test_stalled_chore_is_named_after_its_patience() -> None:
    runner = ChoreRunner(PATIENCE)
    with runner.running("promote"):
        assert polls(runner, PATIENCE) == [None] * PATIENCE
        assert runner.poll() == "its chore promote stalled"


def test_heartbeat_belongs_to_the_chore_of_its_thread() -> None:
    """A long run with heartbeats is healthy; a stalled run beside it is not."""
    runner, runs, ends = ChoreRunner(PATIENCE), threading.Event(), threading.Event()

    def stall() -> None:
        with runner.running("materialize"):
            runs.set()
            ends.wait(60)

    with runner.running("prune"):
        for _ in range(3 * PATIENCE):
            runner.heartbeat()
            runner.poll()
        other = threading.Thread(target=stall)
        other.start()
        assert runs.wait(60)
        for _ in range(PATIENCE):
            runner.heartbeat()
            assert runner.poll() is None
        runner.heartbeat()
        assert runner.poll() == "its chore materialize stalled"
        ends.set()
        other.join()


def test_failing_runs_are_no_stall() -> None:
    """During an outage of the database, all runs fail."""
    runner = ChoreRunner(PATIENCE)
    for _ in range(3 * PATIENCE):
        with suppress(ZeroDivisionError), runner.running("promote"):
            assert 1 / 0
        assert runner.poll() is None


def test_process_that_starts_no_chore_is_stuck() -> None:
    runner = ChoreRunner(PATIENCE)
    with runner.running("promote"):
        pass
    runner.heartbeat()
    assert polls(runner, PATIENCE + 1) == [*[None] * PATIENCE, "it started no chore"]
