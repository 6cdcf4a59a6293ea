"""Steady load for minutes: finds resources that grow, and how fast."""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psutil
import psycopg2

from app.dev.process.child import Child, family
from benchmarks.contenders.contender import check
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.measures.flight import memory
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from benchmarks.system import System

SHARE = 0.7
_EVERY_SECONDS = 0.2
_SAMPLES = (10, 60)
"""Minimum and maximum number of samples; in between one sample a second."""
_FLAT = 0.05
"""Maximum relative growth over the second half that counts as flat."""

_TABLES = ("jobs", "executions", "attempts", "execution_logs")
# Tables only grow here, so the bytes per row show whether a table bloats.
_SIZES = """
SELECT relname, n_live_tup, n_dead_tup, pg_table_size(relid), pg_indexes_size(relid)
  FROM pg_stat_user_tables WHERE relname = ANY(%s)
"""
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
_BACKLOG = "SELECT count(*) FROM executions WHERE status IN ('QUEUED', 'RUNNING', 'RETRYING')"

_MIB, _COUNT, _BYTES, _PERCENT = "MiB", "", "bytes a row", "% of rows"


def measure(run: Run, system: System, minutes: float, executions: int) -> Section:
    """Create and deliver at 70 % of the capacity, measured by a drain of `executions`; sample the resources."""
    run.calibrate()
    rate = SHARE * _capacity(system, executions)
    run.calibrate()
    section = run.section(f"Soak: {minutes:g} min at {rate:,.0f} jobs/s, 70 % of the measured capacity")
    ours, samples = system.ours, dict[Figure, list[tuple[float, float]]]()
    system.arrivals.clear()
    with ours.at_work() as workers, _fed(ours, system.arrivals.url, rate):
        began = time.monotonic()
        fewest, most = _SAMPLES
        count = max(fewest, min(most, int(minutes * 60)))
        pause = minutes * 60 / count
        for number in range(1, count + 1):
            time.sleep(max(0.0, began + number * pause - time.monotonic()))
            check(workers)
            for figure, value in _sample(ours, workers[0]).items():
                samples.setdefault(figure, []).append((number * pause / 3600, value))
    run.calibrate()
    for figure, values in samples.items():
        _judge(run, section, figure, values)
    run.remark(f"sent twice: {system.arrivals.counts()['repeats']}")
    return section


def _capacity(system: System, executions: int) -> float:
    """Return the jobs per second that can be created and delivered, if creation and delivery alternate."""
    drained = drain.drain(system.ours, system.arrivals.url, system.arrivals, executions)
    return 1 / (1 / drained[drain.FILL] + 1 / drained[drain.STEADY])


@contextmanager
def _fed(ours: Ours, url: str, rate: float) -> Iterator[None]:
    """Create jobs at a rate from a thread, in small batches."""
    stop = threading.Event()

    def feed() -> None:
        began, made = time.monotonic(), 0
        with ours.client() as client:
            while not stop.wait(max(0.0, began + made / rate + _EVERY_SECONDS - time.monotonic())):
                # At most one batch behind: a backlog of jobs that the machine could not create in time is dropped.
                began = max(began, time.monotonic() - made / rate - 2 * _EVERY_SECONDS)
                count = max(1, round(rate * _EVERY_SECONDS))
                client.post("/jobs/batch", {"jobs": [ours.job(url) for _ in range(count)]})
                made += count

    thread = threading.Thread(target=feed, name="feed")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _sample(ours: Ours, worker: Child) -> dict[Figure, float]:
    roles = {"web": ours.stack.process("web"), "scheduler": ours.stack.process("scheduler-1"), "worker": worker}
    figures: dict[Figure, float] = {}
    for role, child in roles.items():
        processes = [psutil.Process(pid) for pid in family(child.pid)]
        figures[Figure(f"{role}: PSS", _MIB, 1)] = memory(child.pid)[1]
        figures[Figure(f"{role}: threads", _COUNT)] = sum(process.num_threads() for process in processes)
        figures[Figure(f"{role}: descriptors", _COUNT)] = sum(process.num_fds() for process in processes)
    return figures | _database(ours.stack.database_url)


def _database(url: str) -> dict[Figure, float]:
    figures: dict[Figure, float] = {}
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        for name, query in (("connections", _CONNECTIONS), ("backlog", _BACKLOG)):
            cursor.execute(query)
            figures[Figure(f"PostgreSQL: {name}", _COUNT)] = cursor.fetchone()[0]
        cursor.execute(_SIZES, (list(_TABLES),))
        for table, live, dead, size, indexes in cursor.fetchall():
            rows = max(1, live)
            figures[Figure(f"{table}: table", _BYTES)] = size / rows
            figures[Figure(f"{table}: indexes", _BYTES)] = indexes / rows
            figures[Figure(f"{table}: dead rows", _PERCENT, 1)] = dead / rows * 100
    return figures


def _judge(run: Run, section: Section, figure: Figure, values: Sequence[tuple[float, float]]) -> None:
    """Add the values at the beginning, middle and end; report growth by the slope of the second half."""
    tenth, half = max(1, len(values) // 10), len(values) // 2
    for column, part in (
        ("first tenth", values[:tenth]),
        ("middle", values[half : half + 1]),
        ("last tenth", values[-tenth:]),
    ):
        section.add(figure, f"ours, {column}", statistics.median(value for _, value in part))
    hours, levels = zip(*values[half:], strict=True)
    fit = statistics.linear_regression(hours, levels)
    section.add(figure, "ours, growth an hour", fit.slope)
    grown = fit.slope * (hours[-1] - hours[0])
    noise = statistics.stdev(level - fit.slope * hour for hour, level in values[half:])
    if grown > max(1, _FLAT * statistics.median(levels), 2 * noise):
        run.remark(f"NOT FLAT: {figure.name} grew by {grown:,.1f} {figure.unit} in the second half of the soak")
