"""Statistics of the whole service, read from the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from app.features.breakers import store as breakers
from app.features.control import held_back as held
from app.features.control import lag
from app.features.control import worker_list as workers
from app.features.control.held_back import HeldEndpoint
from app.features.control.worker_list import Workers
from app.features.dead_letters import metrics as dead_letters_metrics
from app.features.dead_letters.metrics import LATE_SECONDS, Unseen
from app.features.queues import queue_statistics as queues
from app.features.queues.queue_statistics import Queue
from app.kernel.db import Database
from schema.states import BreakerState


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of the whole service; `queues` has MOST_QUEUES entries at most."""

    queues: Sequence[Queue]
    held: Sequence[HeldEndpoint]
    paused_endpoints: int
    breakers: Mapping[BreakerState, int]
    workers: Workers
    seconds_behind: float
    unseen: Sequence[Unseen]
    late_ends: int

    @classmethod
    def read(cls, database: Database, shards: int) -> Self:
        """Read all statistics, in one statement each."""
        return cls(
            queues.read(database, queues.known(database, queues.MOST_QUEUES), shards),
            held.read(database),
            held.count_paused(database),
            breakers.count_by_state(database),
            workers.count(database),
            lag.seconds_behind(database),
            dead_letters_metrics.unseen(database),
            dead_letters_metrics.late_ends(database, late_seconds=LATE_SECONDS),
        )
