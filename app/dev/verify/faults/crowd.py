"""Crowds: many jobs at once for a receiver that hangs, or that holds its answers while the database restarts."""

import threading
from functools import partial

from app.dev.verify.faults.database_faults import DatabaseFaults
from app.dev.verify.faults.fault_plan import Act, Fault
from app.dev.verify.faults.injector import Do, Undo
from app.dev.verify.system import System
from app.dev.verify.verify_definitions import Catalogue
from app.dev.verify.workload import Workload

HANGING_JOBS = 150


class CrowdFaults:
    """Jobs that come at once; their threads end with the run."""

    def __init__(
        self,
        workload: Workload,
        system: System,
        catalogue: Catalogue,
        *,
        size: int,
        database: DatabaseFaults | None,
    ) -> None:
        self._workload = workload
        self._system = system
        self._catalogue = catalogue
        self._size = size
        self._database = database
        self._threads: list[threading.Thread] = []
        self._has_held = False
        self.open_at_restart: list[int] = []

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        return {Act.HANG: self._hang, Act.RESTART_LOADED: self._restart_loaded}

    def is_over(self) -> bool:
        """Return whether all jobs that were asked for have their answers."""
        return not any(thread.is_alive() for thread in self._threads)

    def _hang(self, _fault: Fault) -> None:
        self._begin(self._catalogue.hanging, HANGING_JOBS, f"hang-{len(self._threads)}")

    def _restart_loaded(self, _fault: Fault) -> Undo | None:
        """Open deliveries whose answers are held; the end of the fault restarts the database and lets them answer."""
        if self._has_held:
            return None
        self._has_held = True
        gate = f"gate-{len(self._threads)}"
        self._begin(self._catalogue.held, self._size, gate)
        return Undo(partial(self._restart_now, gate), partial(self._is_whole, gate))

    def _restart_now(self, gate: str) -> None:
        self.open_at_restart.append(self._system.sightings.held(gate))
        if self._database is not None:
            self._database.restart()
        self._system.targets.receiver.release(self._catalogue.gate_path(gate))
        self._has_held = False

    def _is_whole(self, gate: str) -> bool:
        return self._system.sightings.held(gate) >= self._size

    def _begin(self, endpoint: str, count: int, word: str) -> None:
        thread = threading.Thread(
            target=self._workload.create_crowd, args=(endpoint, count, word), name=f"crowd-{word}", daemon=True
        )
        thread.start()
        self._threads.append(thread)
