"""Regions: of which regions the rows are that a process chooses to work on."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Executable

from app.kernel.sql import IN_REGIONS


@dataclass(frozen=True, slots=True)
class RegionFilter:
    """Narrows the statements that choose what to claim, promote, materialise and take back; those without `names` all.

    With no names at all it is off: every statement runs as it is written.
    """

    names: tuple[str, ...] | None = None

    def narrowed(
        self, statement: Executable, params: Mapping[str, object] | None
    ) -> tuple[Executable, Mapping[str, object] | None]:
        """Return the form of a statement for these regions, and its parameters; what chooses nothing stays as it is."""
        form = IN_REGIONS.get(statement)
        if form is None:
            return statement, params
        return form, {**(params or {}), "regions": list(self.names or ())}


EVERYWHERE = RegionFilter()
