"""Injector: does to the processes what the schedule says, undoes it in time, and starts again what ended.

It belongs to the main thread: children live only as long as the thread that started them.
"""

import signal
from collections.abc import Callable

from app.dev.process.family import family, signal_all
from app.dev.process.proxy import Mode, Proxy
from app.dev.servers import Postgres
from app.dev.stack.runner import Stack
from app.dev.verify.faults import Act, Fault

_LEASE_LOST = 75  # a worker that gave up its lease asks to be started again
_MODES = {Act.CUT: Mode.CUT, Act.STALL: Mode.STALL, Act.DROP: Mode.DROP}
_RESTART_SECONDS = 0.5

Undo = Callable[[], None]


class Injector:
    """The faults of one run, and the supervisor that production would have."""

    def __init__(self, stack: Stack, ways: dict[str, Proxy], postgres: Postgres | None, plan: list[Fault]) -> None:
        self._stack = stack
        self._ways = ways
        self._postgres = postgres
        self._plan = sorted(plan, key=lambda fault: fault.at, reverse=True)
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

    def step(self, elapsed: float) -> None:
        """Do what is due `elapsed` seconds after the load began."""
        for due, undo in list(self._to_undo):
            if due <= elapsed:
                self._to_undo.remove((due, undo))
                undo()
        while self._plan and self._plan[-1].at <= elapsed:
            fault = self._plan.pop()
            undo_fault = self._do(fault)
            if undo_fault is not None:
                self._to_undo.append((elapsed + fault.seconds, undo_fault))
            self.done.append(fault)
        self._supervise(elapsed)

    def end(self) -> None:
        """Undo everything that lasts and do nothing more."""
        self._plan.clear()
        while self._to_undo:
            self._to_undo.pop()[1]()

    def _do(self, fault: Fault) -> Undo | None:
        if fault.act in _MODES:
            way = self._ways[fault.target]
            way.set(_MODES[fault.act])
            return lambda: way.set(Mode.PASS)
        if fault.act in {Act.RESTART_IMMEDIATE, Act.CRASH}:
            self._restart_database(fault.act)
            return None
        self._asked.add(fault.target)
        return self._hurt(fault)

    def _restart_database(self, act: Act) -> None:
        if self._postgres is None:
            return
        if act is Act.CRASH:
            self._postgres.kill()
            self._postgres.start()
        else:
            self._postgres.restart(mode="immediate")

    def _hurt(self, fault: Fault) -> Undo | None:
        child = self._stack.process(fault.target)
        if not child.is_running:
            return None
        members = family(child.pid)
        if fault.act is Act.KILL:
            child.kill()
        elif fault.act is Act.TERMINATE:
            child.send(signal.SIGTERM)
        elif fault.act is Act.KILL_CHILD:
            signal_all(members[-1:], signal.SIGKILL)
        elif fault.act is Act.FREEZE:
            signal_all(members, signal.SIGSTOP)
            return lambda: signal_all(members, signal.SIGCONT)
        return None

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
