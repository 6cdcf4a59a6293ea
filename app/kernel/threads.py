"""Background threads: their common base class."""

import os
import threading
import time
from abc import ABC, abstractmethod
from typing import ClassVar

STOP_SECONDS = 5.0


class BackgroundThread(ABC):
    """A daemon thread that runs until its process ends or it is stopped.

    Its name begins with `te-`. `run` is its body: it returns soon after `stopping` is set. An exception that leaves
    `run` ends the thread. A worker then exits if the thread `is_vital` (`brokers.middleware`); other processes print
    the traceback and continue.
    """

    is_vital: ClassVar[bool] = False  # whether a worker is useless without it

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._changed = threading.Condition()  # notified when the body has new work
        self._thread: threading.Thread | None = None
        self._process_id = 0
        self._last_heartbeat: float | None = None

    @abstractmethod
    def run(self) -> None:
        """Do the work of the thread."""

    def interrupt(self) -> None:
        """Wake the body; a body that waits for anything else than `stopping` or `_changed` overrides this."""
        with self._changed:
            self._changed.notify_all()

    def start(self) -> None:
        """Start the thread; called once in a process."""
        self._process_id = os.getpid()
        self._thread = _OwnedThread(self)
        self._thread.start()

    def ensure_started(self) -> bool:
        """Start the thread unless it runs in this process; return whether it was started now.

        A fork copies this object without its thread: gunicorn forks after the application may have been built.
        Concurrent callers hold a lock of their own.
        """
        if self._process_id == os.getpid():
            return False
        self.start()
        return True

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Stop the thread and wait for its end; returns false if it still runs after the timeout."""
        self.stopping.set()
        if self._thread is None or not self._thread.is_alive():
            return True
        self.interrupt()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def give_heartbeat(self) -> None:
        """Record a heartbeat; called by the thread."""
        self._last_heartbeat = time.monotonic()

    def last_heartbeat(self) -> float:
        """Return the instant of the last heartbeat, by `time.monotonic()`; now before the first."""
        return time.monotonic() if self._last_heartbeat is None else self._last_heartbeat


class _OwnedThread(threading.Thread):
    """The thread of a BackgroundThread; refers to its owner."""

    def __init__(self, owner: BackgroundThread) -> None:
        super().__init__(target=owner.run, name=owner.name, daemon=True)
        self.owner = owner


def is_vital(thread: threading.Thread | None) -> bool:
    """Return whether the owner of a thread is vital; other threads are not."""
    return isinstance(thread, _OwnedThread) and thread.owner.is_vital
