"""Welcome of a worker, for which the threads of a process wait."""

import logging
import threading
from collections.abc import Mapping

from dramatiq.errors import BrokerConnectionError

from task_executor_dramatiq.refusals import refusal_line

log = logging.getLogger("task_executor_dramatiq")


class Welcome:
    """Answer of a worker to this process: none yet, a welcome, or `trouble`, the reason why there is none."""

    def __init__(self) -> None:
        self.endpoints: Mapping[str, str] = {}  # by actor
        self.refused: Mapping[str, str] = {}  # reasons by actor
        self.trouble: str | None = None  # nothing listens, or the worker refuses
        self._decided = threading.Event()

    def expect(self) -> None:
        """Wait for the answer of a new connection; forget the answer of an earlier connection."""
        self.trouble = None
        self._decided.clear()

    def expect_again(self) -> None:
        """Wait for another answer; trouble stays until a worker can be reached."""
        self._decided.clear()

    def arrive(self, endpoints: Mapping[str, str], refused: Mapping[str, str]) -> None:
        """Note a welcome: the endpoints of the registered actors, and the reasons why other actors have none."""
        self.endpoints, self.refused = endpoints, refused
        if refused:
            log.error("%s", refusal_line(refused))
        self._decided.set()

    def refuse(self, trouble: str) -> None:
        """Let waiting threads fail at once."""
        self.trouble = trouble
        self._decided.set()

    def is_decided(self, seconds: float) -> bool:
        """Wait for an answer; returns whether it came."""
        return self._decided.wait(seconds)

    def wait(self, seconds: float) -> bool:
        """Wait for the welcome; returns whether it came. Raises BrokerConnectionError for trouble."""
        # While there is trouble, nothing is on its way that would be worth a wait.
        is_decided = self.trouble is not None or self.is_decided(seconds)
        if self.trouble is not None:
            raise BrokerConnectionError(self.trouble)
        return is_decided
