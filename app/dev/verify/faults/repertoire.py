"""Repertoire: every kind of fault, ready to be done to one system."""

from app.dev.verify.evidence import RowLock
from app.dev.verify.faults.crowd import CrowdFaults
from app.dev.verify.faults.database_faults import DatabaseFaults
from app.dev.verify.faults.fault_plan import Act
from app.dev.verify.faults.injector import Do, Injector
from app.dev.verify.faults.key_rotation import RotationFaults
from app.dev.verify.faults.process_faults import ProcessFaults
from app.dev.verify.system import System
from app.dev.verify.verify_definitions import Catalogue
from app.dev.verify.verify_options import Options
from app.dev.verify.workload import Workload


class Repertoire:
    """The faults of one run, and what they noted."""

    def __init__(
        self,
        options: Options,
        system: System,
        catalogue: Catalogue,
        injector: Injector,
        workload: Workload,
    ) -> None:
        self._processes = ProcessFaults(system.stack, system.ways, injector)
        self._rotation = RotationFaults(system.stack, workload, injector)
        self._database = DatabaseFaults(system.postgres) if system.postgres else None
        self._crowd = CrowdFaults(workload, system, catalogue, size=options.open_deliveries, database=self._database)

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        of_database = self._database.acts if self._database else {}
        return self._processes.acts | self._rotation.acts | of_database | self._crowd.acts

    @property
    def locks(self) -> tuple[RowLock, ...]:
        return tuple(self._database.locks) if self._database else ()

    @property
    def has_created_all(self) -> bool:
        """Return whether every job of its crowds has its answer."""
        return self._crowd.is_over()

    def notes(self) -> list[str]:
        """Say what the faults met."""
        notes = []
        if self._crowd.open_at_restart:
            numbers = ", ".join(f"{number:,}" for number in self._crowd.open_at_restart)
            notes.append(f"deliveries of a crowd that were open when the database was restarted: {numbers}")
        if self._rotation.rotations:
            notes.append(f"whole rotations of the encryption key: {self._rotation.rotations}")
        if self.locks:
            fewest = min(lock.others for lock in self.locks)
            notes.append(f"rows locked: {len(self.locks)}; during each lock at least {fewest:,} other rows changed")
        return notes
