"""Samples of queues and of the fleet: gauges, which no row holds afterwards."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.features.rollups.rollup_slots import SHORT_S, floored
from app.kernel.db import Database
from app.kernel.sql import statement

FLEET = ""
IS_TAKEN = statement(
    "rollups.is_sampled",
    """
    SELECT now() AS now, EXISTS (
             SELECT 1 FROM queue_samples
              WHERE queue = '' AND step_s = {step} AND slot > now() - INTERVAL '{step} seconds') AS is_taken
    """,
    step=SHORT_S,
)
# If two processes take a sample of one slot, the first counts.
PUT = statement(
    "rollups.sample",
    """
    INSERT INTO queue_samples (queue, step_s, slot, due, oldest_ms, workers, in_flight, slots)
    SELECT u.queue, {step}, CAST(:slot AS TIMESTAMPTZ), u.due, u.oldest_ms, u.workers, u.in_flight, u.slots
      FROM unnest(CAST(:queue AS TEXT[]), CAST(:due AS BIGINT[]), CAST(:oldest_ms AS BIGINT[]),
                  CAST(:workers AS BIGINT[]), CAST(:in_flight AS BIGINT[]), CAST(:slots AS BIGINT[]))
           AS u (queue, due, oldest_ms, workers, in_flight, slots)
    ON CONFLICT (queue, step_s, slot) DO NOTHING RETURNING queue
    """,
    step=SHORT_S,
)


class QueueSample(NamedTuple):
    """State of a queue at an instant, or with an empty name of the fleet, which alone has running jobs and slots."""

    queue: str
    due: int
    oldest_ms: int | None
    workers: int
    in_flight: int | None = None
    slots: int | None = None


def slot_to_sample(database: Database) -> datetime | None:
    """Return the slot of the present instant; None if it has a sample."""
    (row,) = database.fetch(IS_TAKEN)
    return None if row.is_taken else floored(row.now, SHORT_S)


def put(database: Database, slot: datetime, samples: Sequence[QueueSample]) -> int:
    """Store the samples of a slot; returns how many are new."""
    columns = zip(*samples, strict=True)
    params = {name: list(values) for name, values in zip(QueueSample._fields, columns, strict=True)}
    return len(database.fetch(PUT, {"slot": slot, **params}))
