"""Faults of processes and of their ways to the database."""

import signal
from collections.abc import Mapping
from functools import partial

from app.dev.process.family import family, signal_all
from app.dev.process.proxy import Mode, Proxy
from app.dev.stack.runner import Stack
from app.dev.verify.faults.fault_plan import Act, Fault
from app.dev.verify.faults.injector import Do, Injector, Undo

_HURTING = (Act.KILL, Act.KILL_CHILD, Act.TERMINATE, Act.FREEZE)
_MODES = {Act.CUT: Mode.CUT, Act.STALL: Mode.STALL, Act.DROP: Mode.DROP}


class ProcessFaults:
    """Kills, freezes and cuts off processes of a stack."""

    def __init__(self, stack: Stack, ways: Mapping[str, Proxy], injector: Injector) -> None:
        self._stack = stack
        self._ways = ways
        self._injector = injector

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        hurting: Do = self._hurt
        cutting: Do = self._cut_off
        return dict.fromkeys(_HURTING, hurting) | dict.fromkeys(_MODES, cutting)

    def _cut_off(self, fault: Fault) -> Undo:
        way = self._ways[fault.target]
        way.set(_MODES[fault.act])
        return Undo(partial(way.set, Mode.PASS))

    def _hurt(self, fault: Fault) -> Undo | None:
        self._injector.expect_end(fault.target)
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
            return Undo(partial(signal_all, members, signal.SIGCONT))
        return None
