"""Time from the API's answer to the receiver, and lateness of delayed jobs."""

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import baseline, creating
from benchmarks.arrivals import Arrivals
from benchmarks.report import Figure, percentile
from benchmarks.system import System

PAUSE_SECONDS = 0.02
NAME = "bench-time"


def measure(system: System, arrivals: Arrivals, executions: int, samples: int) -> Iterator[Figure]:
    """Measure an idle system, one job at a time, then delayed jobs that come due one after the other."""
    del executions
    creating.register(system, arrivals.url, NAME)
    worker, scheduler = system.worker(), system.stack.scheduler()
    ours_now = immediate(system, arrivals, samples)
    ours_late = delayed(system, arrivals, samples)
    worker.stop(30)
    scheduler.stop(30)
    yardstick = system.yardstick()
    theirs_now, theirs_late = (
        immediate_yardstick(system, arrivals, samples),
        delayed_yardstick(system, arrivals, samples),
    )
    yardstick.stop(30)
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        yield Figure(
            f"answer to receiver, idle, {label}", "ms", percentile(ours_now, share), percentile(theirs_now, share)
        )
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        yield Figure(
            f"lateness of delayed jobs, {label}", "ms", percentile(ours_late, share), percentile(theirs_late, share)
        )


def job(trigger: str) -> dict[str, Any]:
    """Make the body of a new job."""
    return {"endpoint": NAME, "trigger": trigger, "idempotency_key": uuid.uuid4().hex, "input": {"user_id": "u_1"}}


def immediate(system: System, arrivals: Arrivals, samples: int) -> list[float]:
    """Create a job, note when 201 came, and wait for the delivery."""
    sent = {}
    arrivals.clear()
    for number in range(samples):
        answer = system.stack.api.post("/jobs", job("IMMEDIATE"))
        sent[answer["execution"]["execution_id"]] = time.time()
        arrivals.wait_for(number + 1)
        time.sleep(PAUSE_SECONDS)
    return [max(0.0, arrivals.times[key] - instant) * 1000 for key, instant in sent.items()]


def delayed(system: System, arrivals: Arrivals, samples: int) -> list[float]:
    """Create jobs due 10 ms after each other and compare each arrival with its run_at."""
    due = {}
    arrivals.clear()
    first = datetime.now(UTC) + timedelta(seconds=2 + samples * 0.01)
    for number in range(samples):
        run_at = first + timedelta(milliseconds=10 * number)
        body = job("DELAYED") | {"run_at": run_at.isoformat()}
        due[system.stack.api.post("/jobs", body)["execution"]["execution_id"]] = run_at.timestamp()
    arrivals.wait_for(samples)
    return [(arrivals.times[key] - instant) * 1000 for key, instant in due.items()]


def immediate_yardstick(system: System, arrivals: Arrivals, samples: int) -> list[float]:
    """Send a message and wait for its delivery."""
    broker, sent = baseline.RedisBroker(url=system.valkey.url), {}
    arrivals.clear()
    for number in range(samples):
        broker.enqueue(baseline.post.message(arrivals.url, f"i{number}", {}))
        sent[f"i{number}"] = time.time()
        arrivals.wait_for(number + 1)
        time.sleep(PAUSE_SECONDS)
    broker.close()
    return [max(0.0, arrivals.times[key] - instant) * 1000 for key, instant in sent.items()]


def delayed_yardstick(system: System, arrivals: Arrivals, samples: int) -> list[float]:
    """Send messages with a delay and compare each arrival with its eta."""
    broker, due = baseline.RedisBroker(url=system.valkey.url), {}
    arrivals.clear()
    for number in range(samples):
        delay = 2000 + 10 * number
        due[f"d{number}"] = time.time() + delay / 1000
        broker.enqueue(baseline.post.message(arrivals.url, f"d{number}", {}), delay=delay)
    arrivals.wait_for(samples)
    broker.close()
    return [(arrivals.times[key] - instant) * 1000 for key, instant in due.items()]
