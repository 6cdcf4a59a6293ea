"""Unfinished messages of actors: whether there are any, and their cancellation."""

import time
from collections.abc import Sequence

from task_executor_dramatiq.http_sending import HttpSender
from task_executor_dramatiq.sending import PostgresSender

PAUSE_SECONDS = 0.05
RATE = 10_000  # per second, the most that the service allows
STATUSES = "PENDING,QUEUED,RUNNING,RETRYING"
COUNT = "SELECT count(*) FROM executions WHERE endpoint = ANY(%s) AND completed_at IS NULL"


def exists(reader: HttpSender | PostgresSender, endpoints: Sequence[str]) -> bool:
    """Return whether an execution of any of the endpoints is unfinished."""
    if not isinstance(reader, HttpSender):
        return bool(reader.run(lambda execute: execute(COUNT, ([*endpoints],)))[0])
    queries = ({"endpoint": endpoint, "status": STATUSES, "limit": 1} for endpoint in endpoints)
    return any(reader.ask("GET", "/executions", query=query, field="items")["items"] for query in queries)


def cancel(api: HttpSender, endpoints: Sequence[str]) -> None:
    """Cancel the waiting executions of the endpoints, and wait until that is done; running executions go on."""
    started = [
        api.ask(
            "POST",
            "/bulk-operations",
            {"action": "cancel", "wanted": {"endpoint": endpoint}, "rate": RATE},
            field="operation_id",
        )
        for endpoint in endpoints
    ]
    for operation in started:
        path = f"/bulk-operations/{operation['operation_id']}"
        while api.ask("GET", path, field="operation_id")["status"] == "RUNNING":
            time.sleep(PAUSE_SECONDS)
