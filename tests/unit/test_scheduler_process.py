"""The process around the chores: failures stay where they are, and it ends in order."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from apscheduler.schedulers.blocking import BlockingScheduler

from app.errors import UnavailableError
from app.scheduler.chore import Counts, Outage, run_logged
from app.scheduler.process import Every, SchedulerProcess


@dataclass(frozen=True)
class Done:
    rows: int = 0
    more: int = 0


class Scripted:
    """A chore that does what the test says."""

    def __init__(self, name: str, body: Callable[[], Done]) -> None:
        self.name = name
        self._body = body

    def run_once(self) -> Counts:
        return self._body()


def away() -> Done:
    raise UnavailableError("the database cannot be reached")


class Running:
    """A process in a thread; only a main thread may install signal handlers, so the test plays the signal."""

    def __init__(self) -> None:
        self.process = SchedulerProcess()
        self._status: list[int] = []
        self._thread = threading.Thread()

    def start(self, *plan: Every) -> None:
        self._thread = threading.Thread(target=lambda: self._status.append(self.process.run(plan)))
        self._thread.start()

    def stop(self) -> None:
        self.process._on_signal(15, None)

    def wait(self) -> int:
        self._thread.join(60)
        return self._status[0]


@pytest.fixture
def running() -> Running:
    return Running()


def sets(event: threading.Event) -> Callable[[], Done]:
    def body() -> Done:
        event.set()
        return Done()

    return body


def test_a_run_that_did_something_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run_logged(Scripted("sweep", lambda: Done(3, 0)), Outage())
        run_logged(Scripted("sweep", Done), Outage())
    assert caplog.messages == ["sweep: 3 rows"]


TRYING = "first: the database cannot be reached; the scheduler goes on trying"
AGAIN = "the database answers again"


def test_an_outage_is_said_once_for_all_chores_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    first, second = Scripted("first", away), Scripted("second", away)
    for chore in (first, second, first, second):
        run_logged(chore, outage)
    assert caplog.messages == [TRYING]
    for _ in range(2):
        run_logged(Scripted("first", Done), outage)
    assert caplog.messages == [TRYING, AGAIN]
    run_logged(first, outage)
    assert caplog.messages == [TRYING, AGAIN, TRYING]


def test_a_chore_that_alone_cannot_get_through_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its statement times out, for one: the others would end its outage after each of its tries."""
    outage = Outage()
    for _ in range(3):
        run_logged(Scripted("first", away), outage)
        run_logged(Scripted("second", Done), outage)
    assert caplog.messages == [TRYING, AGAIN]
    run_logged(Scripted("first", Done), outage)
    run_logged(Scripted("first", away), outage)
    assert caplog.messages == [TRYING, AGAIN, TRYING]


def test_a_run_that_fails_after_the_end_of_its_outage_starts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()

    def end_and_fail() -> Done:
        run_logged(Scripted("second", Done), outage)
        return away()

    run_logged(Scripted("first", away), outage)
    run_logged(Scripted("slow", end_and_fail), outage)
    assert caplog.messages == [TRYING, AGAIN]


def test_a_chore_that_fails_stops_nobody_and_goes_on(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Its every failure is logged, with the traceback."""
    failures, worked, other = iter(range(2)), threading.Event(), threading.Event()

    def fail_twice() -> Done:
        if next(failures, None) is not None:
            raise ZeroDivisionError
        worked.set()
        return Done()

    running.start(Every(0.01, Scripted("bad", fail_twice)), Every(0.01, Scripted("good", sets(other))))
    assert other.wait(60)
    assert worked.wait(60)
    running.stop()
    assert running.wait() == 0
    failed = [record for record in caplog.records if record.message == "bad failed"]
    assert len(failed) == 2
    assert failed[0].exc_info is not None


def test_every_chore_runs_at_once_and_never_beside_itself(running: Running) -> None:
    ran, pause, rare = threading.Semaphore(0), threading.Event(), threading.Event()
    inside: list[None] = []
    most = [0]

    def body() -> Done:
        inside.append(None)
        most[0] = max(most[0], len(inside))
        pause.wait(0.05)  # longer than the interval
        inside.pop()
        ran.release()
        return Done()

    running.start(Every(0.01, Scripted("slow", body)), Every(3600, Scripted("rare", sets(rare))))
    assert rare.wait(60)
    for _ in range(4):
        assert ran.acquire(timeout=60)
    running.stop()
    assert running.wait() == 0
    assert most == [1]


def test_the_end_waits_for_chores_and_tells_them_to_hurry(running: Running) -> None:
    started, ended = threading.Event(), threading.Event()

    def body() -> Done:
        started.set()
        while not running.process.is_stopping():
            ended.wait(0.001)
        ended.wait(0.1)
        ended.set()
        return Done()

    running.start(Every(3600, Scripted("long", body)))
    assert started.wait(60)
    running.stop()
    running.stop()  # a second signal changes nothing
    assert running.wait() == 0
    assert ended.is_set()


def test_a_chore_that_hangs_holds_up_no_other(running: Running) -> None:
    release, other = threading.Event(), threading.Event()

    def hang() -> Done:
        release.wait(60)
        return Done()

    running.start(Every(0.01, Scripted("hangs", hang)), Every(0.01, Scripted("good", sets(other))))
    assert other.wait(60)
    release.set()
    running.stop()
    assert running.wait() == 0


def test_a_signal_before_the_start_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = BlockingScheduler.start

    def slow(scheduler: BlockingScheduler) -> None:
        threading.Event().wait(0.05)  # the stop must find it before it has started
        real(scheduler)

    monkeypatch.setattr(BlockingScheduler, "start", slow)
    process = SchedulerProcess()
    process._on_signal(15, None)
    assert process.is_stopping()
    assert process.run([Every(3600, Scripted("any", Done))]) == 0


@pytest.mark.parametrize("method", ["_process_jobs", "start"])
def test_the_death_of_the_triggering_thread_ends_the_process(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    def die(_self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(BlockingScheduler, method, die)
    running.start(Every(3600, Scripted("any", Done)))
    assert running.wait() == 1
    assert running.process.is_stopping()
    assert "the thread that triggers the chores died" in caplog.messages


@pytest.fixture
def usual_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("usual_handlers")
def test_a_signal_that_does_not_wake_the_waiting_thread_is_seen() -> None:
    process = SchedulerProcess()
    process.catch_signals()

    def body() -> Done:
        threading.Event().wait(0.2)  # by then the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # to this thread, not to the one that waits
        return Done()

    too_late = threading.Timer(30, process._over.put, [2])
    too_late.start()
    assert process.run([Every(3600, Scripted("signals", body))]) == 0
    too_late.cancel()
