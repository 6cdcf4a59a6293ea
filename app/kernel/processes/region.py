"""Region: the regions whose rows this process chooses. There is one region, so no statement is narrowed.

docs/how-to/operations.md lists the steps to several regions. The remaining step here is to derive `active_regions`
from the rows that `refresh` reads.
"""

import threading

from app.kernel.db import Database
from app.kernel.sql import hot_statement

REGION = "default"  # of every row, and of every process
EVALUATE_SECONDS = 5.0

STATUS = hot_statement("health.region_status", "SELECT region, alive, adopted_by FROM region_status ORDER BY region")


class RegionStatus:
    """Status of the regions; one thread refreshes it, and any thread may read `active_regions`."""

    def __init__(self, database: Database, active_regions: tuple[str, ...] = (REGION,)) -> None:
        self._database = database
        self.active_regions = active_regions
        self.alive: dict[str, bool] = {}

    def refresh(self) -> None:
        """Read the regions; narrow the statements of this process to the active regions unless there is only one."""
        self.alive = {row.region: row.alive for row in self._database.fetch(STATUS)}
        self._database.regions = None if self.active_regions == (REGION,) else self.active_regions


def evaluate(stopping: threading.Event) -> None:
    """Place for a thread that judges other regions by their heartbeats; nothing starts it while there is one region."""
    while not stopping.wait(EVALUATE_SECONDS):
        pass
