"""The chore that deletes what is older than the audit log's own retention."""

from dataclasses import dataclass

from app import audit
from app.db import Database
from app.scheduler.chore import Stopping

BATCH = 500


@dataclass(frozen=True, slots=True)
class PruneAuditCounts:
    """What a run did."""

    entries: int


class PruneAudit:
    """Deletes entries of the audit log, the oldest first."""

    name = "prune_audit"

    def __init__(self, database: Database, *, retention_ms: int, stopping: Stopping) -> None:
        self._database = database
        self._retention_ms = retention_ms
        self._stopping = stopping

    def run_once(self) -> PruneAuditCounts:
        """Delete in batches until nothing has expired."""
        entries = 0
        while not self._stopping():
            deleted = audit.prune(self._database, retention_ms=self._retention_ms, limit=BATCH)
            entries += deleted
            if deleted == 0:
                break
        return PruneAuditCounts(entries)
