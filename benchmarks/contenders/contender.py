"""Contender: a task queue that delivers the same requests to the same receiver."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from app.dev.process.child import Child, ChildError

BODY = {"user_id": "u_1", "order": "o-4711", "text": "hello"}
TOKEN = "bench-token-0123456789"
_STOP_SECONDS = 30.0

Times = dict[str, float]
"""Unix time by idempotency key."""


class Contender(ABC):
    """Fill a queue, start workers, send one by one."""

    name: str
    remark = ""
    """How it is configured, for the report."""
    database_pid: int | None = None
    """PostgreSQL's first process, where it uses one."""

    @abstractmethod
    def fill(self, url: str, count: int) -> float:
        """Enqueue so many deliveries that are due now, and return how many a second."""

    @abstractmethod
    def start(self) -> list[Child]:
        """Start the workers; they may have begun to deliver before it returns."""

    @abstractmethod
    def idle(self, url: str, count: int) -> Times | None:
        """Enqueue one delivery at a time and return when each was accepted; None when it cannot."""

    @abstractmethod
    def delayed(self, url: str, count: int) -> Times | None:
        """Enqueue deliveries that come due one after the other and return when; None when it cannot."""

    def settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done between filling and the start of the workers."""

    @contextmanager
    def at_work(self) -> Iterator[list[Child]]:
        """Lend the workers; they are stopped at the end."""
        with ExitStack() as stack:
            yield [stack.enter_context(ended(worker)) for worker in self.start()]


@contextmanager
def ended(worker: Child) -> Iterator[Child]:
    """Lend a worker that has been started, and stop it at the end."""
    try:
        yield worker
    finally:
        worker.stop(_STOP_SECONDS)


def check(workers: list[Child]) -> None:
    """Raise ChildError with the last lines of a worker that has ended."""
    for worker in workers:
        if not worker.is_running:
            raise ChildError(f"{worker.name} ended with status {worker.returncode}:\n{worker.tail()}")
