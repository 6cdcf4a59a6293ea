"""History: deliveries of an endpoint or of all, and samples of a queue or of the fleet, in equal steps of time."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.rollups import rollup_slots
from app.features.rollups.distribution import Distribution
from app.features.rollups.rollup_slots import HOUR_S, KEPT_S, Marks, floored
from app.features.rollups.rollup_statements import COUNTS, FIGURES, MAX_ERROR_TYPES
from app.features.rollups.samples import FLEET
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.rollup_bounds import LATE_COLUMNS, STEPS_S, TOOK_COLUMNS

ALL, OTHERS = "", "*"  # endpoints of the sum, and of the sum of endpoints without rows of their own
MAX_POINTS = 1_500
USUAL_POINTS = 720
LADDER = (10, 60, 300, 900, 3600, 21_600, 86_400)
"""Steps in seconds from which one is chosen."""

_RANGE = """step_s = CAST(:level AS BIGINT)
       AND slot >= CAST(:since AS TIMESTAMPTZ) AND slot < CAST(:until AS TIMESTAMPTZ)"""
# The begin of the step of a slot. The database sums up: a day of minutes would be 1,440 rows of 40 numbers.
_SECONDS = "CAST(EXTRACT(EPOCH FROM slot) AS BIGINT)"
_STEP = f"{_SECONDS} - {_SECONDS} % CAST(:step_s AS BIGINT)"
DELIVERIES = statement(
    "rollups.deliveries",
    """
    SELECT endpoint, {step} AS step, count(*) AS slots, {figures}
      FROM delivery_rollups WHERE endpoint IN ('', :endpoint) AND {range}
     GROUP BY 1, 2
    """,
    step=_STEP,
    figures=", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in FIGURES),
    range=_RANGE,
)
SAMPLES = statement(
    "rollups.samples",
    """
    SELECT {step} AS step, max(due) AS due, max(oldest_ms) AS oldest_ms, max(workers) AS workers,
           max(in_flight) AS in_flight, max(slots) AS slots
      FROM queue_samples WHERE queue = :queue AND {range}
     GROUP BY 1
    """,
    step=_STEP,
    range=_RANGE,
)
FAILURES = statement(
    "rollups.failures",
    """
    SELECT error_type, COALESCE(CAST(sum(failed) AS BIGINT), 0) AS failed,
           COALESCE(CAST(sum(retried) AS BIGINT), 0) AS retried,
           COALESCE(CAST(sum(uncertain) AS BIGINT), 0) AS uncertain
      FROM failure_rollups WHERE endpoint = :endpoint AND {range}
     GROUP BY error_type ORDER BY failed DESC, retried DESC, error_type LIMIT {most}
    """,
    range=_RANGE,
    most=MAX_ERROR_TYPES,
)


class Range(NamedTuple):
    """Steps from `since` to `until`, which are multiples of `step_s`."""

    since: datetime
    until: datetime
    step_s: int

    @classmethod
    def of(cls, since: datetime, until: datetime, step_s: int, now: datetime) -> "Range":
        """Return the range that covers two instants; a step of 0 is chosen by its length and age."""
        step_s = step_s or chosen_step(until - since, now - since)
        return cls(floored(since, step_s), floored(until + timedelta(seconds=step_s, microseconds=-1), step_s), step_s)

    @property
    def level(self) -> int:
        """The length of the stored slots that are summed up."""
        return _level(self.step_s)

    @property
    def steps(self) -> int:
        return (self.until - self.since) // timedelta(seconds=self.step_s)

    def place(self, slot: datetime) -> int:
        """Return the number of the step of a slot."""
        return (slot - self.since) // timedelta(seconds=self.step_s)

    def at(self, place: int) -> datetime:
        return self.since + place * timedelta(seconds=self.step_s)


class DeliveryCounts(NamedTuple):
    """Attempts and their outcomes; `unsent` executions ended without an attempt, within `failed` and `cancelled`."""

    attempts: int
    succeeded: int
    retried: int
    failed: int
    cancelled: int
    unsent: int
    uncertain: int
    lost: int
    lateness: Distribution
    duration: Distribution

    @classmethod
    def total(cls, rows: Iterable[Row[Any]]) -> "DeliveryCounts":
        """Sum up rows of rollups."""
        sums = dict.fromkeys(FIGURES, 0)
        for row in rows:
            for name, value in zip(FIGURES, row[-len(FIGURES) :], strict=True):
                sums[name] += value or 0
        late = Distribution.of_lateness([sums[name] for name in LATE_COLUMNS])
        took = Distribution.of_duration([sums[name] for name in TOOK_COLUMNS])
        return cls(lateness=late, duration=took, **{name: sums[name] for name in COUNTS})


class Gauges(NamedTuple):
    """The most within a step: due executions, the age of the oldest, live workers, and of the fleet its slots."""

    due: int
    oldest_ms: int | None
    workers: int
    in_flight: int | None
    slots: int | None


class Point(NamedTuple):
    """One step: `counts` is None where nobody counted, `gauges` where nobody took a sample."""

    at: datetime
    counted_seconds: int
    counts: DeliveryCounts | None
    gauges: Gauges | None


class DeliveryHistory(NamedTuple):
    """Points of a range, failures by type of error, and the end of the last counted slot; None before the first."""

    range: Range
    endpoint: str
    queue: str
    counted_until: datetime | None
    points: Sequence[Point]
    failures: Sequence[Row[Any]]


def chosen_step(
    length: timedelta, age: timedelta, *, points: int = USUAL_POINTS, ladder: Sequence[int] = LADDER
) -> int:
    """Return the shortest step that gives at most `points` points, and has slots from the start of a range on."""
    for step in ladder:
        kept_s = KEPT_S.get(_level(step))
        if length <= timedelta(seconds=step * points) and (kept_s is None or age <= timedelta(seconds=kept_s + step)):
            return step
    return ladder[-1]


def read_history(
    database: Database, wanted: Range, marks: Marks, *, endpoint: str = ALL, queue: str | None = FLEET
) -> DeliveryHistory:
    """Read the history of an endpoint and of a queue; without a queue, it has no gauges."""
    params = _params(wanted, endpoint)
    gauges = dict[datetime, Gauges]()
    if queue is not None:
        for at, *values in database.fetch(SAMPLES, params | {"queue": queue}):
            gauges[_instant(at)] = Gauges(*values)
    counted = read_deliveries(database, wanted, endpoint=endpoint)
    points = [point._replace(gauges=gauges.get(point.at)) for point in counted]
    failures = database.fetch(FAILURES, params)
    return DeliveryHistory(wanted, endpoint, queue or FLEET, marks.reached.get(wanted.level), points, failures)


def read_deliveries(database: Database, wanted: Range, *, endpoint: str = ALL) -> list[Point]:
    """Read the points of an endpoint without gauges; without a row in a counted slot it delivered nothing."""
    counted = [0] * wanted.steps
    of_steps: list[list[Row[Any]]] = [[] for _ in counted]
    for row in database.fetch(DELIVERIES, _params(wanted, endpoint)):
        place = wanted.place(_instant(row.step))
        counted[place] += wanted.level * row.slots * (row.endpoint == ALL)
        if row.endpoint == endpoint:
            of_steps[place].append(row)
    return [
        Point(wanted.at(place), seconds, DeliveryCounts.total(rows) if seconds else None, None)
        for place, (seconds, rows) in enumerate(zip(counted, of_steps, strict=True))
    ]


def _params(wanted: Range, endpoint: str) -> dict[str, object]:
    times = {"since": wanted.since, "until": wanted.until, "step_s": wanted.step_s}
    return {"level": wanted.level, "endpoint": endpoint, **times}


def read_last(database: Database, length: timedelta, step_s: int, *, endpoint: str = ALL) -> DeliveryHistory:
    """Read the history of the time until now, by the clock of the database."""
    marks = rollup_slots.marks(database)
    wanted = Range.of(marks.now - length, marks.now, step_s, marks.now)
    return read_history(database, wanted, marks, endpoint=endpoint)


def _instant(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def _level(step_s: int) -> int:
    return max((each for each in STEPS_S if step_s % each == 0), default=HOUR_S)
