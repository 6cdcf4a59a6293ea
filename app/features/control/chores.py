"""Report chore: reads statistics of the whole service from the database and sets them as gauges."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from app.features.control.statistics import Figures
from app.kernel.db import Database, deadline
from app.kernel.errors import TimedOutError, UnavailableError
from app.kernel.metrics import PROCESS, series
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Labels, Values
from app.scheduler.chore import Chore, ChoreContext, Counts

REPORT_SECONDS = 15.0

Gauges = Mapping[Series, Mapping[Labels, float]]


def chores(context: ChoreContext) -> list[Chore]:
    """Return the report chore; none without TE_SCHEDULER_METRICS_ADDR."""
    if not context.settings.scheduler_metrics_addr:
        return []
    reporter = Reporter(context.database, shards=lambda: context.served.count)
    return [Chore("report", REPORT_SECONDS, reporter.report)]


class Reporter:
    """Report chore; `shards` returns the number of shards.

    Every scheduler runs it, so each of them can be scraped. Gauges that cannot be read are removed: an old value would
    look like a quiet service.
    """

    def __init__(self, database: Database, *, shards: Callable[[], int], values: Values = PROCESS) -> None:
        self._database = database
        self._shards = shards
        self._values = values
        self._shown: Gauges = {}

    def report(self) -> Counts:
        """Read all statistics within REPORT_SECONDS, and set the gauges."""
        deadline.begin(REPORT_SECONDS)
        try:
            figures = Figures.read(self._database, self._shards())
        except Exception as error:
            self._show({gauge: {} for gauge in self._shown})
            if isinstance(error, TimedOutError):
                raise UnavailableError(
                    "reading the statistics of the service took longer than the report interval"
                ) from None
            raise
        finally:
            deadline.end()
        self._show(_of_queues(figures) | _of_endpoints(figures, self._values) | _of_all(figures))
        return Counts()

    def _show(self, gauges: Gauges) -> None:
        for gauge, values in gauges.items():
            self._values.replace(gauge, values)
        self._shown = gauges


def _of_queues(figures: Figures) -> dict[Series, dict[Labels, float]]:
    queues = figures.queues
    return {
        series.QUEUE_DEPTH: {(queue.queue,): queue.due for queue in queues},
        series.QUEUE_AGE: {(queue.queue,): queue.oldest_due_seconds or 0.0 for queue in queues},
        series.QUEUE_WORKERS: {(queue.queue,): queue.workers for queue in queues},
        series.QUEUE_PAUSED: {(queue.queue,): int(queue.paused_at is not None) for queue in queues},
        series.UNSERVED_QUEUES: {(): sum(queue.is_unserved for queue in queues)},
    }


def _of_endpoints(figures: Figures, values: Values) -> dict[Series, dict[Labels, float]]:
    """Sum endpoints that share the label for all others."""
    waiting, opens_in = defaultdict[Labels, float](float), defaultdict[Labels, float](float)
    for held in figures.held:
        label = values.endpoints.of(held.endpoint)
        waiting[label, held.hold.value] += held.waiting
        if held.seconds is not None:
            opens_in[label,] = max(opens_in[label,], held.seconds)
    letters = defaultdict[Labels, float](float)
    for unseen in figures.unseen:
        letters[values.endpoints.of(unseen.endpoint),] += unseen.letters
    return {series.WAITING: waiting, series.OPENS_IN: opens_in, series.DEAD_LETTERS: letters}


def _of_all(figures: Figures) -> dict[Series, dict[Labels, float]]:
    workers = figures.workers
    return {
        series.PAUSED: {(): figures.paused_endpoints},
        series.NOT_CLOSED: {(state.value,): count for state, count in figures.breakers.items()},
        series.WORKERS: {(state.value.lower(),): count for state, count in workers.by_state.items()},
        series.FLEET_SLOTS: {(): workers.capacity},
        series.FLEET_IN_FLIGHT: {(): workers.in_flight},
        series.CATCH_UP_LAG: {(): figures.seconds_behind},
        series.LATE_ENDS: {(): figures.late_ends},
    }
