"""Region: which regions this process works for. There is one, so the answer is always the same.

To several regions: docs/operations.md has the statements, in their order. What is left to do here is to let
`active_regions` follow what `refresh` has read; all that chooses work is narrowed to them already.
"""

from app.kernel.db import Database
from app.kernel.db.regions import EVERYWHERE, RegionFilter
from app.kernel.sql import statement

REGION = "default"  # of every row, and of every process

STATUS = statement("health.region_status", "SELECT region, alive, adopted_by FROM region_status ORDER BY region")


class RegionStatus:
    """What is known of the regions; belongs to one thread, except that anybody may read `active_regions`."""

    def __init__(self, database: Database, active_regions: tuple[str, ...] = (REGION,)) -> None:
        self._database = database
        self.active_regions = active_regions
        self.alive: dict[str, bool] = {}

    def refresh(self) -> None:
        """Read the regions, and have the statements of this process choose work of the active ones only.

        With one region they are left as they are, because everything is of it.
        """
        self.alive = {row.region: row.alive for row in self._database.fetch(STATUS)}
        is_narrowed = self.active_regions != (REGION,)
        self._database.regions = RegionFilter(self.active_regions) if is_narrowed else EVERYWHERE
