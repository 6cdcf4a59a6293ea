"""Background threads: the form that all of ours share."""

import os
import threading
import time
from abc import ABC, abstractmethod
from typing import ClassVar

STOP_SECONDS = 5.0


class BackgroundThread(ABC):
    """A daemon thread that lives as long as its process, or until it is stopped.

    Its name begins with `te-`. `run` is its body: it returns soon after `stopping` is set, and an exception that
    leaves it is the thread's death. What a death means belongs to the process: a worker exits when a thread dies that
    `is_vital` (`brokers.middleware`); elsewhere Python prints the traceback and the process goes on.
    """

    is_vital: ClassVar[bool] = False  # whether a worker only looks alive without it

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process_id = 0
        self._last_sign: float | None = None

    @abstractmethod
    def run(self) -> None:
        """Do the work, on the thread."""

    def interrupt(self) -> None:  # noqa: B027 - most bodies wait for `stopping` and need none
        """Wake the body so that it notices `stopping`; needed where it waits for anything else."""

    def start(self) -> None:
        """Start the thread; called once in a process."""
        self._process_id = os.getpid()
        self._thread = _OwnedThread(self)
        self._thread.start()

    def ensure_started(self) -> bool:
        """Start the thread unless this process has it; return whether it was started now.

        A fork copies this object without its thread: gunicorn forks after the application may have been built.
        Concurrent callers hold a lock of their own.
        """
        if self._process_id == os.getpid():
            return False
        self.start()
        return True

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Ask the thread to end and wait for it; False when it still runs after the timeout."""
        self.stopping.set()
        if self._thread is None or not self._thread.is_alive():
            return True
        self.interrupt()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def show_sign(self) -> None:
        """Record a sign of life; called by the thread."""
        self._last_sign = time.monotonic()

    def last_sign(self) -> float:
        """Return when the thread last showed a sign of life, by `time.monotonic()`; now, before its first."""
        return time.monotonic() if self._last_sign is None else self._last_sign


class _OwnedThread(threading.Thread):
    """The thread of a BackgroundThread, which it leads back to."""

    def __init__(self, owner: BackgroundThread) -> None:
        super().__init__(target=owner.run, name=owner.name, daemon=True)
        self.owner = owner


def is_vital(thread: threading.Thread | None) -> bool:
    """Return whether a thread is one of ours that its process cannot do without."""
    return isinstance(thread, _OwnedThread) and thread.owner.is_vital
