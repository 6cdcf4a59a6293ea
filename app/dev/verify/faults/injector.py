"""Injector: executes the scheduled faults and ends lasting faults in time."""

import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator

from app.dev.process.child import family, freeze, signal_all
from app.dev.process.proxy import Mode
from app.dev.verify.faults.database_faults import DatabaseFaults
from app.dev.verify.faults.fault_plan import LOCKS, Act, Fault
from app.dev.verify.faults.key_rotation import rotation_steps
from app.dev.verify.faults.supervisor import Supervisor
from app.dev.verify.system import System
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.dev.verify.workload import Workload
from app.kernel.formats import numbered

HANGING_JOBS = 150

Course = Generator[None]
"""Rest of a lasting fault: each `next` continues it while it lasts; closing it ends it."""


class Injector:
    """Faults of one run; belongs to the main thread, because children end with the thread that started them."""

    def __init__(
        self,
        plan: list[Fault],
        system: System,
        workload: Workload,
        endpoints: VerifyEndpoints,
        supervisor: Supervisor,
        *,
        crowd: int,
    ) -> None:
        """Initialise; `crowd` is the number of open deliveries for Act.RESTART_LOADED."""
        self._plan = deque(plan)
        self._system = system
        self._workload = workload
        self._endpoints = endpoints
        self._supervisor = supervisor
        self._crowd = crowd
        self._database = DatabaseFaults(system.postgres)
        self._rotation = rotation_steps(system.stack, workload, supervisor)
        self._rotations = 0
        self._lasting: list[Course] = []
        self._open_at_restart: list[int] = []
        self._has_crowd = False
        self._acts: dict[Act, Callable[[Fault], Course | None]] = {
            **dict.fromkeys((Act.KILL, Act.TERMINATE, Act.KILL_CHILD), self._kill),
            **dict.fromkeys((Act.CUT, Act.STALL, Act.DROP), self._disconnect),
            **dict.fromkeys(LOCKS, self._lock),
            Act.FREEZE: self._freeze,
            Act.RESTART_IMMEDIATE: self._database.restart,
            Act.CRASH: self._database.crash,
            Act.READ_ONLY: self._database.read_only,
            Act.HANG: self._hang,
            Act.RESTART_LOADED: self._restart_loaded,
            Act.ROTATE: self._rotate,
        }
        self.done: list[Fault] = []
        self.locks = self._database.locks

    def step(self, elapsed: float) -> None:
        """Continue lasting faults and begin the faults that are due `elapsed` seconds after the start of the load."""
        self._lasting = [course for course in self._lasting if next(course, "over") is None]
        while self._plan and self._plan[0].at <= elapsed:
            fault = self._plan.popleft()
            course = self._acts[fault.act](fault)
            if course is not None and next(course, "over") is None:
                self._lasting.append(course)
            self.done.append(fault)

    def end(self) -> None:
        """End all lasting faults and execute no more."""
        self._plan.clear()
        while self._lasting:
            self._lasting.pop().close()

    def notes(self) -> Iterator[str]:
        """Yield statistics of the faults."""
        if self._open_at_restart:
            numbers = ", ".join(f"{number:,}" for number in self._open_at_restart)
            yield f"open deliveries of a crowd at restarts of the database: {numbers}"
        if self._rotations:
            yield f"complete rotations of the encryption key: {self._rotations}"
        if self.locks:
            fewest = min(lock.others for lock in self.locks)
            acts = Counter(lock.row_id.partition(":")[0] for lock in self.locks)
            yield f"rows locked: {len(self.locks)}; during each lock at least {numbered(fewest, 'other row')} changed"
            yield "; ".join(f"{act}: {number}" for act, number in sorted(acts.items()))

    def _kill(self, fault: Fault) -> None:
        self._supervisor.expect_end(fault.target)
        child = self._system.stack.process(fault.target)
        if not child.is_running:
            return
        if fault.act in {Act.KILL, Act.LOCK_LOST}:
            child.kill()
        elif fault.act is Act.TERMINATE:
            child.send(signal.SIGTERM)
        else:
            signal_all(family(child.pid)[-1:], signal.SIGKILL)

    def _lock(self, fault: Fault) -> Course:
        child = self._system.stack.process(fault.target)
        lock = self._database.lock(fault, family(child.pid) if child.is_running else [])
        if next(lock, "over") is not None:
            return
        if fault.act is Act.LOCK_LOST:
            self._kill(fault)
        yield from lock

    def _freeze(self, fault: Fault) -> Course:
        self._supervisor.expect_end(fault.target)
        child = self._system.stack.process(fault.target)
        members = freeze(child.pid) if child.is_running else []
        try:
            yield from fault.lasting()
        finally:
            signal_all(members, signal.SIGCONT)

    def _disconnect(self, fault: Fault) -> Course:
        proxy = self._system.proxies[fault.target]
        proxy.set(Mode[fault.act.name])
        try:
            yield from fault.lasting()
        finally:
            proxy.set(Mode.PASS)

    def _hang(self, _fault: Fault) -> None:
        self._workload.create_crowd(self._endpoints.hanging, HANGING_JOBS, f"hang-{len(self.done)}")

    def _restart_loaded(self, fault: Fault) -> Course:
        """Open deliveries without answers; once all are open, restart the database and then release the answers."""
        if self._has_crowd:
            return
        self._has_crowd = True
        gate = f"gate-{len(self.done)}"
        path = self._endpoints.gate_path(gate)
        self._workload.create_crowd(self._endpoints.held, self._crowd, gate)
        try:
            for _ in fault.lasting():
                if self._system.sightings.held[path] >= self._crowd:
                    break
                yield
        finally:
            self._open_at_restart.append(self._system.sightings.held[path])
            self._database.restart(fault)
            self._system.targets.receiver.release(path)
            self._has_crowd = False

    def _rotate(self, _fault: Fault) -> None:
        self._rotations = next(self._rotation)
