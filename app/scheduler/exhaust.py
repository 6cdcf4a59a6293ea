"""The chore that fails executions which wait for an attempt that they may not have."""

from dataclasses import dataclass

from app.db import Database
from app.executions.sweep import fail_exhausted
from app.scheduler.chore import Stopping

BATCH = 100


@dataclass(frozen=True, slots=True)
class ExhaustCounts:
    """What a run did."""

    failed: int


class Exhaust:
    """Goes on until a batch comes back short."""

    name = "exhaust"

    def __init__(self, database: Database, *, stopping: Stopping) -> None:
        self._database = database
        self._stopping = stopping

    def run_once(self) -> ExhaustCounts:
        """Fail all there are."""
        failed = 0
        while not self._stopping():
            ended = fail_exhausted(self._database, limit=BATCH)
            failed += ended
            if ended < BATCH:
                break
        return ExhaustCounts(failed)
