"""Contender: a task queue that delivers the same requests to the same receiver."""

from abc import ABC, abstractmethod

from app.dev.process.child import Child

BODY = {"user_id": "u_1", "order": "o-4711", "text": "hello"}
TOKEN = "bench-token-0123456789"


class Contender(ABC):
    """Fill a queue, start workers, say what they cost."""

    name: str
    database_pid: int | None = None
    """PostgreSQL's first process, where it uses one."""

    @abstractmethod
    def fill(self, url: str, count: int) -> float:
        """Enqueue so many deliveries that are due now, and return how many a second."""

    @abstractmethod
    def start(self) -> list[Child]:
        """Start the workers; they may have begun to deliver before it returns."""

    def settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done between filling and the start of the workers."""

    def remark(self) -> str:
        """Say how it is configured, for the report."""
        return ""
