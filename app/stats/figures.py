"""Figures: all that the database tells of the service at a moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from app.db import Database
from app.flow import breakers
from app.stats import dead_letters, held, lag, queues, workers
from app.stats.dead_letters import LATE_SECONDS, Unseen
from app.stats.held import Held
from app.stats.queues import Queue
from app.stats.workers import Workers
from schema.states import BreakerState


@dataclass(frozen=True, slots=True)
class Figures:
    """What waits and what holds it back; `queues` are MOST_QUEUES at most."""

    queues: Sequence[Queue]
    held: Sequence[Held]
    paused_endpoints: int
    breakers: Mapping[BreakerState, int]
    workers: Workers
    seconds_behind: float
    unseen: Sequence[Unseen]
    late_ends: int

    @classmethod
    def read(cls, database: Database, shards: int) -> Self:
        """Read them, one after the other."""
        return cls(
            queues.read(database, queues.known(database, queues.MOST_QUEUES), shards),
            held.read(database),
            held.count_paused(database),
            breakers.count_by_state(database),
            workers.count(database),
            lag.seconds_behind(database),
            dead_letters.unseen(database),
            dead_letters.late_ends(database, late_seconds=LATE_SECONDS),
        )
