"""Injector: does what the schedule says, undoes it in time, and starts again the processes that ended.

It belongs to the main thread: children live only as long as the thread that started them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from app.dev.stack.runner import Stack
from app.dev.verify.faults.fault_plan import Act, Fault
from app.kernel.function_types import Call, Stopping, never

_LEASE_LOST = 75  # a worker that gave up its lease asks to be started again
_RESTART_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Undo:
    """End of a fault that lasts: when its time is over, or earlier, once it has reached what it is for."""

    run: Call
    is_ready: Stopping = never


Do = Callable[[Fault], Undo | None]
"""Does a fault; returns what ends it, if it is one that lasts."""


class Injector:
    """The faults of one run, and the supervisor that production would have."""

    def __init__(self, stack: Stack, plan: list[Fault]) -> None:
        self._stack = stack
        self._ways: Mapping[Act, Do] = {}
        self._plan = sorted(plan, key=attrgetter("at"), reverse=True)
        self._to_undo: list[tuple[float, Undo]] = []
        self._asked: set[str] = set()
        self._ended: dict[str, float] = {}
        self.done: list[Fault] = []
        self.restarts = 0
        self.unexpected: list[str] = []

    @property
    def latest(self) -> str:
        """Describe the latest fault."""
        return str(self.done[-1]) if self.done else ""

    def use(self, ways: Mapping[Act, Do]) -> None:
        """Learn how each act is done."""
        self._ways = ways

    def expect_end(self, name: str) -> None:
        """Start a process again after its next end without calling that end a breach."""
        self._asked.add(name)

    def step(self, elapsed: float) -> None:
        """Do what is due `elapsed` seconds after the load began."""
        for due, undo in list(self._to_undo):
            if due <= elapsed or undo.is_ready():
                self._to_undo.remove((due, undo))
                undo.run()
        while self._plan and self._plan[-1].at <= elapsed:
            fault = self._plan.pop()
            undo_fault = self._ways[fault.act](fault)
            if undo_fault is not None:
                self._to_undo.append((elapsed + fault.seconds, undo_fault))
            self.done.append(fault)
        self._supervise(elapsed)

    def end(self) -> None:
        """Undo everything that lasts and do nothing more."""
        self._plan.clear()
        while self._to_undo:
            self._to_undo.pop()[1].run()

    def _supervise(self, elapsed: float) -> None:
        """Start again what has ended; say so when nobody asked for it and no lease was lost."""
        for name in self._stack.names:
            child = self._stack.process(name)
            if child.is_running:
                continue
            if name not in self._ended:
                self._ended[name] = elapsed
                if name not in self._asked and child.returncode != _LEASE_LOST:
                    self.unexpected.append(f"{name} ended with status {child.returncode}: {child.tail(5)}")
            elif elapsed - self._ended[name] >= _RESTART_SECONDS:
                child.kill()  # what is left of its group
                self._stack.start_process(name)
                self.restarts += 1
                del self._ended[name]
                self._asked.discard(name)
