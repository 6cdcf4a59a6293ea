"""Faults of processes and of their ways to the database."""

import signal
from collections.abc import Callable, Mapping

from app.dev.process.family import family, signal_all
from app.dev.process.proxy import Mode, Proxy
from app.dev.stack.runner import Stack
from app.dev.verify.faults.injector import Do, Undo
from app.dev.verify.faults.plan import Act, Fault

_HURTING = (Act.KILL, Act.KILL_CHILD, Act.TERMINATE, Act.FREEZE)
_MODES = {Act.CUT: Mode.CUT, Act.STALL: Mode.STALL, Act.DROP: Mode.DROP}


class ProcessFaults:
    """Kills, freezes and cuts off processes of a stack."""

    def __init__(self, stack: Stack, ways: Mapping[str, Proxy], expect_end: Callable[[str], None]) -> None:
        self._stack = stack
        self._ways = ways
        self._expect_end = expect_end

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        hurting: Do = self._hurt
        cutting: Do = self._cut_off
        return dict.fromkeys(_HURTING, hurting) | dict.fromkeys(_MODES, cutting)

    def _cut_off(self, fault: Fault) -> Undo:
        way = self._ways[fault.target]
        way.set(_MODES[fault.act])
        return Undo(lambda: way.set(Mode.PASS))

    def _hurt(self, fault: Fault) -> Undo | None:
        self._expect_end(fault.target)
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
            return Undo(lambda: signal_all(members, signal.SIGCONT))
        return None
