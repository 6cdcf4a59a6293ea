"""Task Executor as it is shipped: API, PostgreSQL, a worker of two processes with eight threads."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg2

from app.dev.process.child import Child
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.settings import product_environment
from benchmarks.contenders.contender import BODY, TOKEN, Contender

_BATCH = 1000
_FIELD = {"type": "string", "maxLength": 100}
_SCHEMA = {
    "type": "object",
    "properties": dict.fromkeys(BODY, _FIELD),
    "required": list(BODY),
    "additionalProperties": False,
}
_HEADERS = {"Authorization": "Bearer {{secret.bench-token}}"}
_TEMPLATE = {name: "{{input." + name + "}}" for name in BODY}


class Ours(Contender):
    """The product of this working tree, or of another one with a `.venv` of its own."""

    def __init__(self, logs: Path, name: str = "ours", tree: Path | None = None, **env: str) -> None:
        self.name = name
        self.stack = Stack(
            commands={"web": programs.WEB},
            env=product_environment() | env,
            logs=logs / name,
            cwd=tree,
            python=tree and tree / ".venv" / "bin" / "python",
        )
        self._endpoints: dict[str, str] = {}

    def open(self) -> "Ours":
        """Start PostgreSQL and the API, and register what the templates use."""
        self.stack.start()
        self.stack.api.post("/secrets", {"name": "bench-token", "value": TOKEN})
        self.stack.api.post("/payload-specs", {"name": "bench", "schema": _SCHEMA})
        self.database_pid = self.stack.postgres.pid if self.stack.postgres else None
        return self

    def endpoint(self, url: str) -> str:
        """Return the name of the endpoint for a URL, registered when it is new."""
        if url not in self._endpoints:
            self._endpoints[url] = f"bench-{len(self._endpoints) + 1}"
            spec = {"url": url, "method": "POST", "headers": _HEADERS, "body_template": _TEMPLATE}
            self.stack.api.post(
                "/endpoints",
                {"name": self._endpoints[url], "type": "HTTP", "spec": spec, "payload_spec": "bench"},
            )
        return self._endpoints[url]

    def job(self, url: str, **fields: Any) -> dict[str, Any]:
        """Make the body of a new job; it is due now unless `fields` say otherwise."""
        given = {"endpoint": self.endpoint(url), "trigger": "IMMEDIATE", "idempotency_key": uuid.uuid4().hex}
        return given | {"input": BODY} | fields

    def fill(self, url: str, count: int) -> float:
        started = time.perf_counter()
        for begun in range(0, count, _BATCH):
            jobs = [self.job(url) for _ in range(min(_BATCH, count - begun))]
            items = self.stack.api.post("/jobs/batch", {"jobs": jobs})["items"]
            if any(item["status"] != 201 for item in items):
                raise RuntimeError(f"a batch was refused: {json.dumps(items)[:500]}")
        return count / (time.perf_counter() - started)

    def settle(self) -> None:
        settle(self.stack.database_url)

    def start(self) -> list[Child]:
        number = sum(name.startswith("worker") for name in self.stack.names) + 1
        return [self.stack.launch(f"worker-{number}", programs.worker(processes=2, threads=8))]

    def remark(self) -> str:
        return "2 processes x 8 threads, default settings"


def settle(database_url: str) -> None:
    """Give the planner statistics, and start with a fresh checkpoint, so that all begin alike."""
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("CHECKPOINT")
    connection.close()
