"""Rate at which the API accepts jobs."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import uvloop

from benchmarks.arrivals import Arrivals
from benchmarks.report import Figure
from benchmarks.system import System

CLIENTS = 16
SECONDS = 5.0


def measure(system: System, arrivals: Arrivals, executions: int, samples: int) -> Iterator[Figure]:
    """POST /jobs from sixteen clients; the yardstick is the same server answering a request that does nothing."""
    del executions, samples
    register(system, arrivals.url)
    jobs = run(system, "POST", "/jobs", lambda: delayed_job("bench-create"))
    nothing = run(system, "GET", "/health/live", lambda: None)
    yield Figure("jobs created through the API", "1/s", jobs, nothing, "GET /health/live")


def register(system: System, url: str, name: str = "bench-create") -> None:
    """Register the endpoint that the jobs are for."""
    spec = {"url": url, "method": "POST", "body_template": {"user_id": "{{input.user_id}}"}}
    body = {"name": name, "type": "HTTP", "spec": spec}
    system.stack.api.post("/endpoints", body)


def delayed_job(endpoint: str) -> dict[str, Any]:
    """Make a job that no worker will touch during the measurement."""
    return {
        "endpoint": endpoint,
        "trigger": "DELAYED",
        "run_at": "2099-01-01T00:00:00Z",
        "idempotency_key": uuid.uuid4().hex,
        "input": {"user_id": "u_1"},
    }


def run(system: System, method: str, path: str, body: Callable[[], Any]) -> float:
    """Send requests for a while and return how many a second were answered well."""
    return uvloop.run(_run(system, method, path, body))


async def _run(system: System, method: str, path: str, body: Callable[[], Any]) -> float:
    headers = {"Authorization": f"Bearer {system.stack.api.key}"}
    done = 0
    async with aiohttp.ClientSession(headers=headers) as session:
        started = time.perf_counter()

        async def client() -> None:
            nonlocal done
            while time.perf_counter() - started < SECONDS:
                async with session.request(method, system.stack.url + path, json=body()) as response:
                    await response.read()
                    response.raise_for_status()
                    done += 1

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        return done / (time.perf_counter() - started)
