"""Crowds: many jobs at once for a receiver that hangs, or that holds its answers while the database restarts."""

import threading
from collections.abc import Callable

from app.dev.verify.faults.injector import Do, Undo
from app.dev.verify.faults.plan import Act, Fault

HANGING_JOBS = 150

Create = Callable[[str, int, str], None]
"""Creates so many jobs for an endpoint, with this word in their input; returns when each has its answer."""


class CrowdFaults:
    """Jobs that come at once; their threads end with the run."""

    def __init__(
        self,
        create: Create,
        *,
        hanging: str,
        held: str,
        size: int,
        release: Callable[[str], None],
        open_now: Callable[[str], int],
        restart: Callable[[], None],
    ) -> None:
        self._create = create
        self._hanging = hanging
        self._held = held
        self._size = size
        self._release = release
        self._open_now = open_now
        self._restart = restart
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
        self._begin(self._hanging, HANGING_JOBS, f"hang-{len(self._threads)}")

    def _restart_loaded(self, _fault: Fault) -> Undo | None:
        """Open deliveries whose answers are held; the end of the fault restarts the database and lets them answer."""
        if self._has_held:
            return None
        self._has_held = True
        gate = f"gate-{len(self._threads)}"
        self._begin(self._held, self._size, gate)
        return Undo(lambda: self._restart_now(gate), lambda: self._open_now(gate) >= self._size)

    def _restart_now(self, gate: str) -> None:
        self.open_at_restart.append(self._open_now(gate))
        self._restart()
        self._release(gate)
        self._has_held = False

    def _begin(self, endpoint: str, count: int, word: str) -> None:
        thread = threading.Thread(target=self._create, args=(endpoint, count, word), name=f"crowd-{word}", daemon=True)
        thread.start()
        self._threads.append(thread)
