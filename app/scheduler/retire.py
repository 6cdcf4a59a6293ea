"""The chore that retires one-shot jobs which the end of their execution did not retire."""

from dataclasses import dataclass

from app.db import Database
from app.executions.sweep import retire_finished
from app.scheduler.chore import Stopping

BATCH = 500
MAX_BATCHES = 20


@dataclass(frozen=True, slots=True)
class RetireCounts:
    """What a run did."""

    retired: int


class Retire:
    """Walks over the jobs, a bounded stretch at each run, and begins again behind the last."""

    name = "retire"

    def __init__(self, database: Database, *, stopping: Stopping) -> None:
        self._database = database
        self._stopping = stopping
        self._after = ""

    def run_once(self) -> RetireCounts:
        """Look at the next stretch of jobs."""
        retired = 0
        for _ in range(MAX_BATCHES):
            if self._stopping():
                break
            page = retire_finished(self._database, after=self._after, limit=BATCH)
            retired += page.retired
            if page.last is None or page.seen < BATCH:
                self._after = ""
                break
            self._after = page.last
        return RetireCounts(retired)
