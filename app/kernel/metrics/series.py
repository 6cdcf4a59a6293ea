"""Series: what can be measured of a process, each declared once, with its name, help, labels and buckets.

Names get the prefix `task_executor_`, and those of counters the suffix `_total`. Labels are bounded: `endpoint` by
TE_METRICS_MAX_ENDPOINTS, all others by the code.
"""

from dataclasses import dataclass
from enum import Enum, auto

PREFIX = "task_executor_"
ENDPOINT = "endpoint"


class Kind(Enum):
    """What a series is; how Prometheus reads it."""

    COUNTER = auto()
    GAUGE = auto()
    HISTOGRAM = auto()


class Merge(Enum):
    """What the values of a gauge in several processes are together."""

    SUM = auto()
    MEAN = auto()
    NEWEST = auto()  # each tells of the same thing: who has set it last is right


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
        """How many numbers a value has: one, or the sum and the count in each bucket."""
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 1


SERIES: dict[str, Series] = {}


def _declared(series: Series) -> Series:
    if series.name in SERIES:
        raise ValueError(f"{series.name} is declared twice")
    SERIES[series.name] = series
    return series


def _counter(name: str, help_: str, *labels: str) -> Series:
    return _declared(Series(name, help_, Kind.COUNTER, labels))


def _gauge(name: str, help_: str, *labels: str, merge: Merge = Merge.SUM) -> Series:
    return _declared(Series(name, help_, Kind.GAUGE, labels, merge=merge))


def _histogram(name: str, help_: str, *labels: str, buckets: tuple[float, ...]) -> Series:
    return _declared(Series(name, help_, Kind.HISTOGRAM, labels, buckets))


# From a claim of a millisecond to the longest that a delivery may take.
_STATEMENT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)
_DELIVERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LATENESS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
_BATCH_ROWS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_CHORE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0)

# Every process.
PROCESSES = _gauge("processes", "Live processes behind this address.")
BUILD = _gauge("build_info", "1, by the version of this program.", "version", merge=Merge.NEWEST)
STATEMENT_RETRIES = _counter(
    "statement_retries_total",
    "Statements that were run again, by the SQLSTATE of what stopped them; `connection` where it broke.",
    "sqlstate",
)

# Web processes.
REQUESTS = _counter(
    "http_requests_total",
    "Requests answered, by the template of their route; `none` where no route was reached.",
    *("route", "method", "status_class"),
)
REQUEST_SECONDS = _histogram(
    "http_request_duration_seconds",
    "From when a thread takes a request to its answer, without what it has waited for a result.",
    *("route", "method"),
    buckets=_REQUEST_SECONDS,
)
REQUESTS_WAITING = _gauge("http_requests_waiting", "Requests that wait for a result, without a thread.")
STREAMS_OPEN = _gauge("http_streams_open", "Streams of events that clients read.")
WAITING_PLACES = _gauge(
    "http_waiting_places", "As many requests may wait and streams be open together: TE_WEB_WAITING."
)
SCHEDULED = _counter("tasks_scheduled_total", "Jobs created, by their trigger.", "trigger")

# Workers: attempts.
STARTED = _counter("worker_jobs_started_total", "Attempts begun.", "kind", ENDPOINT)
COMPLETED = _counter(
    "worker_jobs_completed_total",
    "Attempts whose result was written, by the status that it led to.",
    *("kind", ENDPOINT, "outcome"),
)
DURATION = _histogram(
    "worker_job_duration_seconds",
    "From the start of an attempt to its end.",
    *("kind", "outcome"),
    buckets=_DELIVERY_SECONDS,
)
LATENESS = _histogram(
    "execution_delay_seconds",
    "From the instant at which an attempt was due to its first byte.",
    "kind",
    buckets=_LATENESS_SECONDS,
)
EXECUTED = _counter("tasks_executed_total", "Executions that ended in success.")
FAILED = _counter(
    "tasks_failed_total",
    "Executions that ended in failure: after an attempt, or in the scheduler, by the chore that ended them.",
    "reason",
)
UNCERTAIN = _counter(
    "worker_uncertain_deliveries_total", "Attempts that failed although they may have been delivered.", "kind"
)
SOFT_LIMITS = _counter("worker_soft_limits_passed_total", "Attempts that went on beyond their soft limit.")

# Workers: claims and results.
CLAIM_SECONDS = _histogram(
    "worker_claim_duration_seconds", "Statements that claim: from call to answer.", "queue", buckets=_STATEMENT_SECONDS
)
CLAIM_ROWS = _histogram("worker_claim_batch_size", "Executions that a claim has brought.", "queue", buckets=_BATCH_ROWS)
CONCLUDE_SECONDS = _histogram(
    "worker_conclude_duration_seconds",
    "Statements that write results: from call to answer.",
    buckets=_STATEMENT_SECONDS,
)
CONCLUDE_ROWS = _histogram(
    "worker_conclude_batch_size", "Results in a statement that writes them.", buckets=_BATCH_ROWS
)
RELEASED = _counter("worker_claims_released_total", "Claims handed back unsent.")
STRAYS = _counter("worker_stray_claims_total", "Claims handed back because the answer that brought them was lost.")
STALE = _counter("worker_stale_results_total", "Results that changed nothing, because their claim was lost.")
REFUSED = _counter("worker_results_refused_total", "Results that the database refused, stored without their payload.")
ABANDONED = _counter("worker_results_abandoned_total", "Results dropped by a process that lost its lease.")
LOST_LEASES = _counter("worker_leases_lost_total", "Processes that gave up because they lost their lease or a thread.")
ENDS_HANDLED = _counter("outbox_ends_handled_total", "Ends of executions of which all effects have come about.")
EFFECTS_FAILED = _counter(
    "outbox_effects_failed_total",
    "Effects of single ends that have failed; each is tried again after a wait.",
    "effect",
)
NOTIFICATION_EVENTS = _counter(
    "notification_events_total", "Events noted for notification rules, each counted for each rule that tells of it."
)
NOTIFICATIONS_FAILED = _counter(
    "notifications_failed_total", "Messages of notification rules that have failed for good."
)
BREAKERS = _counter("breaker_transitions_total", "Changes of breakers made by this worker.", "to", "reason")

# Workers: gauges.
IN_FLIGHT = _gauge("worker_jobs_in_flight", "Claims that a worker holds.")
SLOTS = _gauge("worker_slots", "Claims that workers hold at most, without the reserve.")
SLOTS_IN_USE = _gauge("worker_slots_in_use", "Slots of claims, and of those that are asked for just now.")
UTILIZATION = _gauge("worker_utilization", "Slots in use of all slots, from 0 to 1.", merge=Merge.MEAN)
UNWRITTEN = _gauge("worker_results_waiting", "Results that wait to be written.")

# Schedulers.
CHORE_SECONDS = _histogram("scheduler_chore_duration_seconds", "Runs of chores.", "chore", buckets=_CHORE_SECONDS)
CHORE_FAILURES = _counter("scheduler_chore_failures_total", "Runs of chores that an error has ended.", "chore")
CHORE_AT = _gauge(
    "scheduler_chore_last_success_timestamp_seconds",
    "When a chore has ended well for the last time, or done one of several batches, in seconds since 1970.",
    "chore",
    merge=Merge.NEWEST,
)
CHORE_ROWS = _counter(
    "scheduler_chore_changes_total", "What chores have changed, such as executions reclaimed.", "chore", "change"
)

NOTIFICATIONS_SENT = _counter(
    "notifications_sent_total", "Messages of notification rules that became jobs, one for each channel."
)
NOTIFICATIONS_SUPPRESSED = _counter(
    "notifications_suppressed_total",
    "What notification rules did not tell: messages that a channel's payload spec refused (`refused`), events whose "
    "subject was told of before (`repeated`).",
    "reason",
)

# Schedulers: what the database tells. Each tells of the whole service.
QUEUE_DEPTH = _gauge(
    "queue_depth", "Executions that are due in a queue; up to 10,000 are counted.", "queue", merge=Merge.NEWEST
)
QUEUE_AGE = _gauge(
    "queue_oldest_due_seconds",
    "For how long the oldest of them has been due; 0 where none is.",
    "queue",
    merge=Merge.NEWEST,
)
QUEUE_WORKERS = _gauge("queue_workers", "Live worker processes that serve a queue.", "queue", merge=Merge.NEWEST)
UNSERVED_QUEUES = _gauge(
    "queues_unserved",
    "Queues in which something is due that no live worker serves, and not paused.",
    merge=Merge.NEWEST,
)
QUEUE_PAUSED = _gauge("queue_paused", "1 where nothing of a queue is claimed, else 0.", "queue", merge=Merge.NEWEST)
WAITING = _gauge(
    "endpoint_waiting",
    "Executions that wait at an endpoint that is held back, by what holds it: `paused`, `concurrency` or `rate`; up to "
    "1,000 are counted of each.",
    *(ENDPOINT, "hold"),
    merge=Merge.NEWEST,
)
OPENS_IN = _gauge(
    "endpoint_rate_opens_seconds",
    "In what time the rate of an endpoint lets the next one start; of those without a label of their own the longest.",
    ENDPOINT,
    merge=Merge.NEWEST,
)
PAUSED = _gauge("endpoints_paused", "Endpoints that are paused.", merge=Merge.NEWEST)
NOT_CLOSED = _gauge(
    "breakers", "Breakers that are not closed, by their state: `open` or `half_open`.", "state", merge=Merge.NEWEST
)
WORKERS = _gauge(
    "workers",
    "Worker processes of the last day, by their state: `alive`, `draining`, `lost` without a word, `drained`, `dead`.",
    "state",
    merge=Merge.NEWEST,
)
FLEET_SLOTS = _gauge("fleet_slots", "Slots of all live worker processes, also of those that drain.", merge=Merge.NEWEST)
FLEET_IN_FLIGHT = _gauge(
    "fleet_jobs_in_flight",
    "Claims that live worker processes held at their last heartbeats, also those that drain.",
    merge=Merge.NEWEST,
)
DEAD_LETTERS = _gauge(
    "dead_letters_open",
    "Executions of an endpoint that have failed and that nobody has seen to; up to 1,000 are counted of each.",
    ENDPOINT,
    merge=Merge.NEWEST,
)
LATE_ENDS = _gauge(
    "outbox_ends_late",
    "Ends of executions of which something has not followed for a minute; up to 1,000 are counted.",
    merge=Merge.NEWEST,
)
CATCH_UP_LAG = _gauge(
    "catch_up_lag_seconds",
    "For how long the most overdue tick of all jobs has been waiting to become an execution.",
    merge=Merge.NEWEST,
)
