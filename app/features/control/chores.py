"""Chores that read statistics of the whole service: one sets them as gauges, one stores samples of the queues."""

from collections import defaultdict
from collections.abc import Mapping

from app.features.control.statistics import ServiceStatistics
from app.features.control.store import WorkerState, count_workers
from app.features.queues import store as queue_store
from app.features.queues.store import Queue
from app.features.rollups import samples
from app.features.rollups.rollup_slots import SHORT_S
from app.features.rollups.samples import FLEET, QueueSample
from app.kernel.db import Database, deadline
from app.kernel.errors import TimedOutError, UnavailableError
from app.kernel.metrics import PROCESS, series
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Labels, Values
from app.scheduler.chore import Chore, ChoreContext, Counts

REPORT_SECONDS = 15.0
GAUGES = (
    *(series.QUEUE_DEPTH, series.QUEUE_AGE, series.QUEUE_WORKERS, series.QUEUE_PAUSED, series.UNSERVED_QUEUES),
    series.QUEUES_LEFT_OUT,
    *(series.WAITING, series.OPENS_IN, series.DEAD_LETTERS, series.PAUSED, series.NOT_CLOSED, series.WORKERS),
    *(series.FLEET_SLOTS, series.FLEET_IN_FLIGHT, series.CATCH_UP_LAG, series.LATE_ENDS),
)


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores; the report only with TE_SCHEDULER_METRICS_ADDR.

    Every scheduler reports, so each of them can be scraped. One of the schedulers takes the sample of a slot.
    """

    def report() -> Counts:
        set_gauges(context.database, context.served.count, PROCESS)
        return Counts()

    def sample() -> Counts:
        return Counts(samples=take_sample(context.database, context.served.count))

    reports = [Chore("report", REPORT_SECONDS, report)] if context.settings.scheduler_metrics_addr else []
    return [Chore("sample", SHORT_S, sample), *reports]


def take_sample(database: Database, shards: int) -> int:
    """Store the state of all queues and of the fleet, unless the present slot has its sample; returns the rows."""
    slot = samples.slot_to_sample(database)
    if slot is None:
        return 0
    known = queue_store.known(database, queue_store.MAX_QUEUES)
    queues, fleet = queue_store.read(database, known.workers, shards), count_workers(database)
    of_queues = [QueueSample(queue.queue, queue.due, _oldest_ms(queue), queue.workers) for queue in queues]
    alive = fleet.by_state[WorkerState.ALIVE] + fleet.by_state[WorkerState.DRAINING]
    oldest = max((each.oldest_ms for each in of_queues if each.oldest_ms is not None), default=None)
    due = sum(queue.due for queue in queues)
    return samples.put(
        database, slot, [QueueSample(FLEET, due, oldest, alive, fleet.in_flight, fleet.capacity), *of_queues]
    )


def _oldest_ms(queue: Queue) -> int | None:
    return None if queue.oldest_due_seconds is None else round(queue.oldest_due_seconds * 1000)


def set_gauges(database: Database, shards: int, values: Values, *, seconds: float = REPORT_SECONDS) -> None:
    """Read all statistics within `seconds`, and set GAUGES.

    After an error the gauges are removed: an old value would look like a quiet service.
    """
    gauges: Mapping[Series, Mapping[Labels, float]] = {gauge: {} for gauge in GAUGES}
    deadline.begin(seconds)
    try:
        gauges = _gauges_of(ServiceStatistics.read(database, shards), values)
    except TimedOutError:
        raise UnavailableError("Reading the statistics of the service took longer than the report interval.") from None
    finally:
        deadline.end()
        for gauge, found in gauges.items():
            values.replace(gauge, found)


def _gauges_of(statistics: ServiceStatistics, values: Values) -> dict[Series, Mapping[Labels, float]]:
    queues, workers = statistics.queues, statistics.workers
    # Endpoints without a label of their own share a label and are summed up.
    waiting, opens_in, letters = (defaultdict[Labels, float](float) for _ in range(3))
    for held in statistics.held:
        label = values.endpoints.of(held.endpoint)
        waiting[label, held.hold.value] += held.waiting
        if held.seconds is not None:
            opens_in[label,] = max(opens_in[label,], held.seconds)
    for each in statistics.open_letters:
        letters[values.endpoints.of(each.endpoint),] += each.letters
    return {
        series.QUEUE_DEPTH: {(queue.queue,): queue.due for queue in queues},
        series.QUEUE_AGE: {(queue.queue,): queue.oldest_due_seconds or 0.0 for queue in queues},
        series.QUEUE_WORKERS: {(queue.queue,): queue.workers for queue in queues},
        series.QUEUE_PAUSED: {(queue.queue,): int(queue.paused_at is not None) for queue in queues},
        series.UNSERVED_QUEUES: {(): sum(queue.is_unserved for queue in queues)},
        series.QUEUES_LEFT_OUT: {(): statistics.queues_left_out},
        series.WAITING: waiting,
        series.OPENS_IN: opens_in,
        series.DEAD_LETTERS: letters,
        series.PAUSED: {(): statistics.paused_endpoints},
        series.NOT_CLOSED: {(state.value,): count for state, count in statistics.breakers.items()},
        series.WORKERS: {(state.value.lower(),): count for state, count in workers.by_state.items()},
        series.FLEET_SLOTS: {(): workers.capacity},
        series.FLEET_IN_FLIGHT: {(): workers.in_flight},
        series.CATCH_UP_LAG: {(): statistics.seconds_behind},
        series.LATE_ENDS: {(): statistics.late_ends},
    }
