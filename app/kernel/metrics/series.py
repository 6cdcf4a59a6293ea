"""Series: declarations of metrics with name, help, labels and buckets; a feature declares its own in `metrics.py`.

All names get the prefix `task_executor_`; names of counters end in `_total`. Values of labels are bounded: `endpoint`
by TE_METRICS_MAX_ENDPOINTS, all other labels by the code.
"""

from dataclasses import dataclass
from enum import Enum, auto

PREFIX = "task_executor_"
ENDPOINT = "endpoint"


class Kind(Enum):
    """Type of a series in Prometheus."""

    COUNTER = auto()
    GAUGE = auto()
    HISTOGRAM = auto()


class Merge(Enum):
    """Rule for merging the values of a gauge in several processes."""

    SUM = auto()
    MEAN = auto()
    NEWEST = auto()  # all processes report the same fact; the latest value is valid


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One series; `buckets` are the upper bounds of a histogram, without infinity."""

    name: str
    help: str
    kind: Kind
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Merge = Merge.SUM

    @property
    def cell_size(self) -> int:
        """Return the size of a cell: 1, or for a histogram the sum and the count in each bucket."""
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 1


SERIES: dict[str, Series] = {}


def _declared(series: Series) -> Series:
    if series.name in SERIES:
        raise ValueError(f"{series.name} is declared twice")
    SERIES[series.name] = series
    return series


def counter(name: str, help_: str, *labels: str) -> Series:
    return _declared(Series(name, help_, Kind.COUNTER, labels))


def gauge(name: str, help_: str, *labels: str, merge: Merge = Merge.SUM) -> Series:
    return _declared(Series(name, help_, Kind.GAUGE, labels, merge=merge))


def histogram(name: str, help_: str, *labels: str, buckets: tuple[float, ...]) -> Series:
    return _declared(Series(name, help_, Kind.HISTOGRAM, labels, buckets))


_STATEMENT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)
_DELIVERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LATENESS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
_BATCH_ROWS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_CHORE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0)

# Every process.
PROCESSES = gauge("processes", "Live processes behind this address.")
BUILD = gauge("build_info", "1, labelled with the version of this program.", "version", merge=Merge.NEWEST)
STATEMENT_RETRIES = counter(
    "statement_retries_total",
    "Statement retries, by the SQLSTATE of the failure; `connection` if the connection broke.",
    "sqlstate",
)

# Web processes.
REQUESTS = counter(
    "http_requests_total",
    "Answered requests, by route template; `none` if no route matched.",
    *("route", "method", "status_class"),
)
REQUEST_SECONDS = histogram(
    "http_request_duration_seconds",
    "Time from when a thread takes a request to its answer, without the wait for a result.",
    *("route", "method"),
    buckets=_REQUEST_SECONDS,
)
REQUESTS_WAITING = gauge("http_requests_waiting", "Requests that wait for a result, without a thread.")
STREAMS_OPEN = gauge("http_streams_open", "Open event streams.")
WAITING_PLACES = gauge("http_waiting_places", "Limit of waiting requests and open streams together (TE_WEB_WAITING).")
SCHEDULED = counter("tasks_scheduled_total", "Created jobs, by trigger.", "trigger")

# Workers: attempts.
STARTED = counter("worker_jobs_started_total", "Started attempts.", "kind", ENDPOINT)
COMPLETED = counter(
    "worker_jobs_completed_total",
    "Attempts whose result was written, by the resulting status.",
    *("kind", ENDPOINT, "outcome"),
)
DURATION = histogram(
    "worker_job_duration_seconds",
    "Time from the start of an attempt to its end.",
    *("kind", "outcome"),
    buckets=_DELIVERY_SECONDS,
)
LATENESS = histogram(
    "execution_delay_seconds",
    "Time from the due instant of an attempt to its first byte.",
    "kind",
    buckets=_LATENESS_SECONDS,
)
EXECUTED = counter("tasks_executed_total", "Executions that ended in success.")
FAILED = counter(
    "tasks_failed_total",
    "Executions that ended in failure, after an attempt or by a chore of the scheduler, by reason.",
    "reason",
)
UNCERTAIN = counter(
    "worker_uncertain_deliveries_total", "Attempts that failed although they may have been delivered.", "kind"
)
SOFT_LIMITS = counter("worker_soft_limits_passed_total", "Attempts that exceeded their soft limit.")

# Workers: claims and results.
CLAIM_SECONDS = histogram(
    "worker_claim_duration_seconds", "Duration of claim statements.", "queue", buckets=_STATEMENT_SECONDS
)
CLAIM_ROWS = histogram("worker_claim_batch_size", "Executions returned by a claim.", "queue", buckets=_BATCH_ROWS)
COMPLETE_SECONDS = histogram(
    "worker_complete_duration_seconds",
    "Duration of statements that write results.",
    buckets=_STATEMENT_SECONDS,
)
COMPLETE_ROWS = histogram("worker_complete_batch_size", "Results in a statement that writes them.", buckets=_BATCH_ROWS)
RELEASED = counter("worker_claims_released_total", "Claims released unsent.")
ORPHANS = counter("worker_stray_claims_total", "Claims released because the answer to the claim statement was lost.")
WAKEUPS_DROPPED = counter(
    "worker_wakeups_dropped_total",
    "Parts of wake-ups that were dropped, by reason: `malformed`, `unknown_queue` or `unread`.",
    "reason",
)
STALE = counter("worker_stale_results_total", "Results that changed nothing because their claim was lost.")
REFUSED = counter("worker_results_refused_total", "Results that the database refused, stored without their payload.")
ABANDONED = counter("worker_results_abandoned_total", "Results dropped by a process that lost its lease.")
LOST_LEASES = counter("worker_leases_lost_total", "Processes that exited because they lost their lease or a thread.")
ENDS_HANDLED = counter("outbox_ends_handled_total", "Completion events that all handlers have processed.")
EFFECTS_FAILED = counter(
    "outbox_effects_failed_total",
    "Failures of a handler for a single completion event; each is retried after a wait.",
    "effect",
)
BREAKERS = counter("breaker_transitions_total", "State changes of breakers made by this worker.", "to", "reason")

# Workers: gauges.
IN_FLIGHT = gauge("worker_jobs_in_flight", "Claims held by workers.")
SLOTS = gauge("worker_slots", "Maximum number of claims held by workers, without the reserve.")
SLOTS_IN_USE = gauge("worker_slots_in_use", "Slots in use, including slots of a claim under way.")
UTILIZATION = gauge("worker_utilization", "Slots in use divided by all slots, from 0 to 1.", merge=Merge.MEAN)
UNWRITTEN = gauge("worker_results_waiting", "Results that wait to be written.")

# Schedulers.
CHORE_SECONDS = histogram(
    "scheduler_chore_duration_seconds", "Duration of chore runs.", "chore", buckets=_CHORE_SECONDS
)
CHORE_FAILURES = counter("scheduler_chore_failures_total", "Chore runs that ended with an error.", "chore")
CHORE_AT = gauge(
    "scheduler_chore_last_success_timestamp_seconds",
    "Time of the last successful run or batch of a chore, in seconds since 1970.",
    "chore",
    merge=Merge.NEWEST,
)
CHORE_ROWS = counter(
    "scheduler_chore_changes_total",
    "Rows changed by chores, by kind of change, such as executions reclaimed.",
    "chore",
    "change",
)

# Schedulers: statistics of the whole service, read from the database.
QUEUE_DEPTH = gauge(
    "queue_depth", "Due executions of a queue; at most 10,000 are counted.", "queue", merge=Merge.NEWEST
)
QUEUE_AGE = gauge(
    "queue_oldest_due_seconds",
    "Time since the oldest due execution of a queue became due; 0 without a due execution.",
    "queue",
    merge=Merge.NEWEST,
)
QUEUE_WORKERS = gauge("queue_workers", "Live worker processes that serve a queue.", "queue", merge=Merge.NEWEST)
UNSERVED_QUEUES = gauge(
    "queues_unserved",
    "Unpaused queues with due executions and without a live worker.",
    merge=Merge.NEWEST,
)
QUEUES_LEFT_OUT = gauge(
    "queues_left_out",
    "Queues with waiting executions and without a series, because more than 200 have some; at most 200 are counted.",
    merge=Merge.NEWEST,
)
QUEUE_PAUSED = gauge("queue_paused", "1 while a queue is paused, else 0.", "queue", merge=Merge.NEWEST)
WAITING = gauge(
    "endpoint_waiting",
    "Due executions of a held endpoint, by hold: `paused`, `concurrency` or `rate`; at most 1,000 are "
    "counted for each.",
    *(ENDPOINT, "hold"),
    merge=Merge.NEWEST,
)
OPENS_IN = gauge(
    "endpoint_rate_opens_seconds",
    "Time until the rate limit of an endpoint admits the next start; the longest for endpoints that share "
    "the label `other`.",
    ENDPOINT,
    merge=Merge.NEWEST,
)
PAUSED = gauge("endpoints_paused", "Paused endpoints.", merge=Merge.NEWEST)
NOT_CLOSED = gauge(
    "breakers", "Breakers that are not closed, by state: `open` or `half_open`.", "state", merge=Merge.NEWEST
)
WORKERS = gauge(
    "workers",
    "Worker processes of the last day, by state: `alive`, `draining`, `lost` (lease expired), `drained`, `dead`.",
    "state",
    merge=Merge.NEWEST,
)
FLEET_SLOTS = gauge("fleet_slots", "Slots of all live worker processes, including draining ones.", merge=Merge.NEWEST)
FLEET_IN_FLIGHT = gauge(
    "fleet_jobs_in_flight",
    "Claims held by live worker processes at their last heartbeats, including draining ones.",
    merge=Merge.NEWEST,
)
DEAD_LETTERS = gauge(
    "dead_letters_open",
    "Open dead letters of an endpoint; at most 1,000 are counted for each.",
    ENDPOINT,
    merge=Merge.NEWEST,
)
LATE_ENDS = gauge(
    "outbox_ends_late",
    "Completion events still unprocessed after a minute; at most 1,000 are counted.",
    merge=Merge.NEWEST,
)
CATCH_UP_LAG = gauge(
    "catch_up_lag_seconds",
    "Age of the most overdue tick of all jobs that is not yet an execution.",
    merge=Merge.NEWEST,
)
