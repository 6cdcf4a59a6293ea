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
    """A task queue with methods to fill it, start its workers, and enqueue single deliveries."""

    name: str
    database_pid: int | None = None
    """Process id of its PostgreSQL, if it has any."""

    @property
    @abstractmethod
    def remark(self) -> str:
        """Return the configuration, for the report."""

    @abstractmethod
    def fill(self, url: str, count: int) -> float:
        """Enqueue `count` deliveries due now, and return the rate per second."""

    @abstractmethod
    def start(self) -> list[Child]:
        """Start the workers; they may have begun to deliver before it returns."""

    @abstractmethod
    def idle(self, url: str, count: int) -> Times | None:
        """Enqueue one delivery at a time and return the time of each acceptance; None if unsupported."""

    @abstractmethod
    def delayed(self, url: str, count: int) -> Times | None:
        """Enqueue deliveries with consecutive due times and return these times; None if unsupported."""

    def settle(self) -> None:  # noqa: B027 - most contenders need no preparation
        """Prepare the filled queue before the workers start."""

    @contextmanager
    def at_work(self) -> Iterator[list[Child]]:
        """Start workers, lend them, and stop them at the end."""
        with ExitStack() as stack:
            yield [stack.enter_context(ended(worker)) for worker in self.start()]


@contextmanager
def ended(worker: Child) -> Iterator[Child]:
    """Lend a started worker, and stop it at the end."""
    try:
        yield worker
    finally:
        worker.stop(_STOP_SECONDS)


def check(workers: list[Child]) -> None:
    """Raise ChildError with the last lines of output if a worker has ended."""
    for worker in workers:
        if not worker.is_running:
            raise ChildError(f"{worker.name} ended with status {worker.returncode}:\n{worker.tail()}")
