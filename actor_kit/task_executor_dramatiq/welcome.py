"""Welcome of a worker, for which the threads of a process wait."""

import threading

from dramatiq.errors import BrokerConnectionError


class Welcome:
    """Answer of a worker to this process: none yet, a welcome, or `trouble`, the reason why there is none."""

    def __init__(self) -> None:
        self.trouble: str | None = None  # nothing listens, or the worker refuses
        self._decided = threading.Event()

    def expect(self) -> None:
        """Wait for the answer of a new connection, whatever an earlier one was."""
        self.trouble = None
        self._decided.clear()

    def expect_again(self) -> None:
        """Wait for another answer; trouble stays until a worker can be reached."""
        self._decided.clear()

    def arrive(self) -> None:
        """Note the welcome."""
        self._decided.set()

    def refuse(self, trouble: str) -> None:
        """Let those that wait fail at once."""
        self.trouble = trouble
        self._decided.set()

    def is_decided(self, seconds: float) -> bool:
        """Wait for an answer; returns whether there is one."""
        return self._decided.wait(seconds)

    def wait(self, seconds: float) -> bool:
        """Wait for the welcome; returns whether it came. Raises BrokerConnectionError for trouble."""
        # While there is trouble, nothing is on its way that would be worth a wait.
        is_decided = self.trouble is not None or self.is_decided(seconds)
        if self.trouble is not None:
            raise BrokerConnectionError(self.trouble)
        return is_decided
