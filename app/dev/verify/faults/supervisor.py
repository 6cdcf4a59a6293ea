"""Supervisor: restarts ended processes, as a production system would."""

from app.dev.stack.runner import Stack

_LEASE_LOST = 75  # exit status of a worker that lost its lease and asks for a restart
_RESTART_SECONDS = 0.5


class Supervisor:
    """Belongs to the main thread: children end with the thread that started them."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._expected: set[str] = set()
        self._ended: dict[str, float] = {}
        self.restarts = 0
        self.unexpected: list[str] = []
        """Descriptions of ends that nothing explains."""

    def expect_end(self, name: str) -> None:
        """Accept the next end of a process."""
        self._expected.add(name)

    def step(self, elapsed: float) -> None:
        """Restart ended processes after a pause and record unexpected ends; `elapsed` in seconds."""
        for name in self._stack.names:
            child = self._stack.process(name)
            if child.is_running:
                continue
            if name not in self._ended:
                self._ended[name] = elapsed
                if name not in self._expected and child.returncode != _LEASE_LOST:
                    self.unexpected.append(f"{name} ended with status {child.returncode}: {child.tail(5)}")
            elif elapsed - self._ended[name] >= _RESTART_SECONDS:
                child.kill()  # the rest of its process group
                self._stack.start_process(name)
                self.restarts += 1
                del self._ended[name]
                self._expected.discard(name)
