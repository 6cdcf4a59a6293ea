"""Scheduler process: a failure stays within its chore, and the process shuts down cleanly."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from apscheduler.schedulers.blocking import BlockingScheduler

from app.kernel.errors import UnavailableError
from app.kernel.formats import EPOCH
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import CHORE_AT, FAILED, SERIES
from app.scheduler.chore import Chore, Counts, counts_so_far, report_progress
from app.scheduler.chore_runner import ChoreRunner
from app.scheduler.scheduler_process import SchedulerProcess, first_runs


def chore(name: str, run: Callable[[], Counts] = Counts, *, every_seconds: float = 3600) -> Chore:
    return Chore(name, every_seconds, run)


def unreachable() -> Counts:
    raise UnavailableError("the database cannot be reached")


class Running:
    """A process in a thread; its signal handlers run on the main thread, which runs the test."""

    def __init__(self) -> None:
        self.process = SchedulerProcess()
        self.process.catch_signals()
        self._status: list[int] = []
        self._thread = threading.Thread()

    def start(self, *plan: Chore) -> None:
        self._thread = threading.Thread(target=lambda: self._status.append(self.process.run(plan)))
        self._thread.start()

    def stop(self) -> None:
        signal.raise_signal(signal.SIGTERM)

    def wait(self) -> int:
        self._thread.join(60)
        return self._status[0]


def test_chores_start_one_after_the_other() -> None:
    """All chores at once would open a connection each."""
    found = [first for _, first in first_runs([chore(f"c{number}") for number in range(40)], EPOCH)]
    assert len(set(found)) == 40
    assert found == sorted(found)
    assert found[-1] <= EPOCH + timedelta(seconds=1), "a process begins all its work at once"


@pytest.fixture
def usual_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def running(usual_handlers: None) -> Running:
    return Running()


def sets(event: threading.Event) -> Callable[[], Counts]:
    def body() -> Counts:
        event.set()
        return Counts()

    return body


def test_run_with_changes_is_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ChoreRunner().run(chore("sweep", lambda: Counts(rows=0, failed=0)))
        at_first = PROCESS.snapshot().cells
        ChoreRunner().run(chore("sweep", lambda: Counts(rows=3, failed=2, more=0)))
        ChoreRunner().run(chore("sweep"))
        ChoreRunner().run(chore("sweep", unreachable))
    assert caplog.messages[0] == "sweep: 3 rows, 2 failed"
    counted = {found.name: PROCESS.total(found, "sweep") for found in SERIES.values() if "chore" in found.labels}
    assert counted.pop(CHORE_AT.name) > 0
    assert counted == {
        "scheduler_chore_duration_seconds": 3,
        "scheduler_chore_changes_total": 5,
        "scheduler_chore_failures_total": 1,
    }
    assert PROCESS.total(FAILED, "sweep") == 2
    assert at_first["tasks_failed_total"]["sweep",] == [0.0], "rates need a 0 before the first failure"


def test_changes_of_a_run_count_although_the_run_fails_later(caplog: pytest.LogCaptureFixture) -> None:
    def body() -> Counts:
        counts_so_far().update(failed=500)
        report_progress()
        counts_so_far().update(failed=500)
        return unreachable()

    with caplog.at_level(logging.INFO):
        ChoreRunner().run(chore("in batches", body))
        ChoreRunner().run(chore("in one", unreachable))
    assert PROCESS.total(FAILED, "in batches") == 1000
    assert PROCESS.total(CHORE_AT, "in batches") > PROCESS.total(CHORE_AT, "in one") == 0, (
        "a long run must count as alive"
    )
    assert "in batches: 1000 failed" in caplog.messages
    assert counts_so_far() == Counts(), "outside a run the counts must be empty"


TRYING = "chore first: the database cannot be reached; the scheduler retries"
AGAIN = "the database answers again"


def test_outage_and_its_end_are_logged_once_for_all_chores(caplog: pytest.LogCaptureFixture) -> None:
    runner = ChoreRunner()
    first, second = chore("first", unreachable), chore("second", unreachable)
    for failing in (first, second, first, second):
        runner.run(failing)
    assert caplog.messages == [TRYING]
    for _ in range(2):
        runner.run(chore("first"))
    assert caplog.messages == [TRYING, AGAIN]
    runner.run(first)
    assert caplog.messages == [TRYING, AGAIN, TRYING]


def test_chore_that_alone_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """For example its statement times out: other chores would end its outage after each of its runs."""
    runner = ChoreRunner()
    for _ in range(3):
        runner.run(chore("first", unreachable))
        runner.run(chore("second"))
    assert caplog.messages == [TRYING, AGAIN]
    runner.run(chore("first"))
    runner.run(chore("first", unreachable))
    assert caplog.messages == [TRYING, AGAIN, TRYING]


def test_run_that_fails_after_the_end_of_its_outage_starts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    runner = ChoreRunner()

    def end_and_fail() -> Counts:
        runner.run(chore("second"))
        return unreachable()

    runner.run(chore("first", unreachable))
    runner.run(chore("slow", end_and_fail))
    assert caplog.messages == [TRYING, AGAIN]


def test_run_that_began_before_the_outage_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """Its last answer may have come before the outage."""
    runner = ChoreRunner()

    def lose_and_end() -> Counts:
        runner.run(chore("first", unreachable))
        return Counts()

    runner.run(chore("slow", lose_and_end))
    runner.run(chore("second", unreachable))
    assert caplog.messages == [TRYING]
    runner.run(chore("second"))
    assert caplog.messages == [TRYING, AGAIN]


def test_failing_chore_stops_no_other_chore_and_runs_again(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Each failure is logged with a traceback."""
    failures, worked, other = iter(range(2)), threading.Event(), threading.Event()

    def fail_twice() -> Counts:
        if next(failures, None) is not None:
            raise ZeroDivisionError
        worked.set()
        return Counts()

    running.start(chore("bad", fail_twice, every_seconds=0.01), chore("good", sets(other), every_seconds=0.01))
    assert other.wait(60)
    assert worked.wait(60)
    running.stop()
    assert running.wait() == 0
    failed = [record for record in caplog.records if record.message == "chore bad failed; the scheduler retries"]
    assert len(failed) == 2
    assert failed[0].exc_info is not None


def test_every_chore_runs_at_the_start_and_never_twice_at_a_time(running: Running) -> None:
    ran, pause, rare = threading.Semaphore(0), threading.Event(), threading.Event()
    inside: list[None] = []
    most = [0]

    def body() -> Counts:
        inside.append(None)
        most[0] = max(most[0], len(inside))
        pause.wait(0.05)  # longer than the interval
        inside.pop()
        ran.release()
        return Counts()

    running.start(chore("slow", body, every_seconds=0.01), chore("rare", sets(rare)))
    assert rare.wait(60)
    for _ in range(4):
        assert ran.acquire(timeout=60)
    running.stop()
    assert running.wait() == 0
    assert most == [1]


def test_shutdown_stops_chores_and_waits_for_them(running: Running) -> None:
    started, ended = threading.Event(), threading.Event()

    def body() -> Counts:
        started.set()
        while not running.process.is_stopping():
            ended.wait(0.001)
        ended.wait(0.1)
        ended.set()
        return Counts()

    running.start(chore("long", body))
    assert started.wait(60)
    running.stop()
    running.stop()  # a second signal changes nothing
    assert running.wait() == 0
    assert ended.is_set()


def test_hanging_chore_delays_no_other_chore(running: Running) -> None:
    release, other = threading.Event(), threading.Event()

    def hang() -> Counts:
        release.wait(60)
        return Counts()

    running.start(chore("hangs", hang, every_seconds=0.01), chore("good", sets(other), every_seconds=0.01))
    assert other.wait(60)
    release.set()
    running.stop()
    assert running.wait() == 0


@pytest.mark.usefixtures("usual_handlers")
def test_signal_before_the_start_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = BlockingScheduler.start

    def slow(scheduler: BlockingScheduler) -> None:
        threading.Event().wait(0.05)  # the stop comes before the start
        real(scheduler)

    monkeypatch.setattr(BlockingScheduler, "start", slow)
    process = SchedulerProcess()
    process.catch_signals()
    signal.raise_signal(signal.SIGTERM)
    assert process.is_stopping()
    assert process.run([chore("any")]) == 0


@pytest.mark.parametrize("method", ["_process_jobs", "start"])
def test_death_of_the_triggering_thread_ends_the_process(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    def die(_self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(BlockingScheduler, method, die)
    running.start(chore("any"))
    assert running.wait() == 1
    assert running.process.is_stopping()
    assert "the thread that starts the chores died; the scheduler exits" in caplog.messages


@pytest.mark.usefixtures("usual_handlers")
def test_signal_that_does_not_wake_the_waiting_thread_is_noticed() -> None:
    process = SchedulerProcess()
    process.catch_signals()

    def body() -> Counts:
        threading.Event().wait(0.2)  # by then the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # to this thread, not to the waiting thread
        return Counts()

    # Without polls the process would sleep until a signal wakes its main thread.
    asleep, main = threading.Event(), threading.get_ident()
    rescue = threading.Timer(30, lambda: (asleep.set(), signal.pthread_kill(main, signal.SIGTERM)))
    rescue.start()
    assert process.run([chore("signals", body)]) == 0
    rescue.cancel()
    assert not asleep.is_set()
