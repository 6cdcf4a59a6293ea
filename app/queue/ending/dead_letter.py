"""Dead letter: a failed execution as a value."""

from dataclasses import dataclass
from datetime import datetime

from app.kernel.db.paging import Position
from app.kernel.db.rows import RowValue
from schema.states import Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(RowValue):
    """An execution that has failed; `redriven_as` is the one that it went on as, if it was retried or redriven."""

    letter_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    labels: dict[str, str] | None
    error_type: str
    message: str | None
    attempt_count: int
    failed_at: datetime
    resolution: Resolution | None
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None
    redriven_as: str | None

    @property
    def position(self) -> Position:
        """Its place in the list."""
        return Position(self.failed_at, self.letter_id)
