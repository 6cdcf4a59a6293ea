"""Background threads: started once per process, stopped within a time limit, with a heartbeat."""

import os
import threading
import time

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka_producer import SharedProducer
from actors.loop import DeliveryLoop
from app.kernel.threads import BackgroundThread, is_vital
from brokers.finalizer import Finalizer
from brokers.inbox import WakeupListener
from brokers.lease_heartbeat import Heartbeat, Watchdog


class Waiting(BackgroundThread):
    """Waits for `released`. An interrupt sets `released`, unless the thread is `deaf`."""

    def __init__(self, *, deaf: bool = False) -> None:
        super().__init__("te-waiting")
        self.released = threading.Event()
        self.names: list[str] = []
        self._deaf = deaf

    def run(self) -> None:
        self.give_heartbeat()
        self.names.append(threading.current_thread().name)
        self.released.wait()

    def interrupt(self) -> None:
        if not self._deaf:
            self.released.set()


def test_thread_has_its_name_and_ends_when_it_is_stopped() -> None:
    thread = Waiting()
    thread.start()
    assert thread.stop(60)
    assert thread.names == ["te-waiting"]


def test_stop_waits_no_longer_than_its_timeout() -> None:
    thread = Waiting(deaf=True)
    thread.start()
    assert not thread.stop(0.01)
    thread.released.set()
    assert thread.stop(60)


def test_thread_that_never_started_counts_as_stopped() -> None:
    assert Waiting().stop(60)


def test_last_heartbeat_is_now_before_the_first() -> None:
    thread, before = Waiting(), time.monotonic()
    assert thread.last_heartbeat() >= before
    thread.start()
    assert thread.stop(60)
    assert before <= thread.last_heartbeat() <= time.monotonic()


class Vital(Waiting):
    """A vital thread: a process without this thread does no useful work."""

    is_vital = True


def test_only_threads_declared_vital_are_vital() -> None:
    threads = Waiting(), Vital()
    for thread in threads:
        thread.start()
    running = [item for item in threading.enumerate() if item.name == "te-waiting"]
    assert sorted(map(is_vital, running)) == [False, True]
    assert not is_vital(threading.current_thread())
    assert not is_vital(None)
    assert all(thread.stop(60) for thread in threads)


def test_vital_threads_of_a_worker() -> None:
    threads = {DeliveryLoop, Finalizer, Heartbeat, Watchdog}
    assert {thread for thread in (*threads, SharedProducer, WakeupListener) if thread.is_vital} == threads


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_process_gets_its_own_thread() -> None:
    thread = Waiting()
    assert thread.ensure_started()
    assert not thread.ensure_started()
    child = os.fork()
    if child == 0:
        os._exit(0 if thread.ensure_started() and not thread.ensure_started() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert thread.stop(60)
