"""The product with default settings: API, scheduler, PostgreSQL, a worker of two processes with eight threads."""

import json
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2

from app.dev.process.child import Child
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.programs import product_environment
from app.dev.stack.runner import Stack
from benchmarks.contenders.contender import BODY, TOKEN, Contender, Times
from benchmarks.environment import ROOT
from benchmarks.keepalive import KeepAlive

_BATCH = 1000
_PAUSE_SECONDS = 0.025
_FIRST_SECONDS = 2.0
_APART_SECONDS = 0.01
_FIELD = {"type": "string", "maxLength": 100}
_SCHEMA = {
    "type": "object",
    "properties": dict.fromkeys(BODY, _FIELD),
    "required": list(BODY),
    "additionalProperties": False,
}
_TEMPLATE = {name: "{{input." + name + "}}" for name in BODY}


def _commands(tree: Path) -> dict[str, programs.Command]:
    """Return the commands of API and scheduler from the Procfile of a tree, because other versions differ in them."""
    lines = (line.partition(":") for line in (tree / "Procfile").read_text(encoding="utf-8").splitlines())
    found = {name: tuple(shlex.split(command.removeprefix(" python -m"))) for name, _colon, command in lines}
    return {"web": found["web"], "scheduler-1": found["scheduler"]}


class Ours(Contender):
    """The product of this working tree, or of another working tree with a `.venv`; a context manager."""

    def __init__(
        self,
        logs: Path,
        name: str = "ours",
        *,
        tree: Path | None = None,
        env: Mapping[str, str] | None = None,
        worker_env: Mapping[str, str] | None = None,
        prepare: Callable[[str], object] | None = None,
        postgres: Postgres | None = None,
    ) -> None:
        """Use a running `postgres`, or start one; `prepare` first gets the URL of the migrated database."""
        self.name = name
        self._postgres = postgres
        self.stack = Stack(
            database_url=None if postgres is None else postgres.url,
            commands=_commands(tree or ROOT),
            env=product_environment() | dict(env or {}),
            logs=logs / name,
            cwd=tree,
            python=tree and tree / ".venv" / "bin" / "python",
        )
        self._settings = "".join(f", {name}={value}" for name, value in (env or {}).items())
        self._worker_env = dict(worker_env or {})
        self._prepare = prepare
        self._run = uuid.uuid4().hex[:8]
        self._endpoints: dict[str, str] = {}

    @property
    def remark(self) -> str:
        return f"API, scheduler, worker of 2 processes x 8 threads; default settings{self._settings}"

    def __enter__(self) -> "Ours":
        """Start PostgreSQL, API and scheduler, and register a secret and a payload spec for the endpoints."""
        self.stack.start()
        if self._prepare is not None:
            self._prepare(self.stack.database_url)
        self.stack.api.post("/secrets", {"name": f"token-{self._run}", "value": TOKEN})
        self.stack.api.post("/payload-specs", {"name": f"bench-{self._run}", "schema": _SCHEMA})
        postgres = self._postgres or self.stack.postgres
        self.database_pid = postgres.pid if postgres else None
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stack.stop()

    def endpoint(self, url: str, **fields: Any) -> str:
        """Return the name of the endpoint for a URL; a new endpoint is registered with `fields`."""
        if url not in self._endpoints:
            headers = {"Authorization": "Bearer {{secret.token-" + self._run + "}}"}
            spec = {"url": url, "method": "POST", "headers": headers, "body_template": _TEMPLATE}
            self.register(url, "HTTP", spec, **fields)
        return self._endpoints[url]

    def register(self, target: str, type_: str, spec: Mapping[str, Any], **fields: Any) -> str:
        """Register an endpoint for a target, and return its name."""
        name = self._endpoints[target] = f"bench-{self._run}-{len(self._endpoints) + 1}"
        body = {"name": name, "type": type_, "spec": spec, "payload_spec": f"bench-{self._run}"}
        self.stack.api.post("/endpoints", body | fields)
        return name

    def job(self, url: str, **fields: Any) -> dict[str, Any]:
        """Return the body of a new job, due now unless `fields` change it."""
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
        command = programs.worker(processes=2, threads=8)
        return [self.stack.launch(f"worker-{number}", command, **self._worker_env)]

    @contextmanager
    def at_work_with(self, **env: str) -> Iterator[list[Child]]:
        """Lend workers with additional settings."""
        usual = self._worker_env
        self._worker_env = usual | env
        try:
            with self.at_work() as workers:
                yield workers
        finally:
            self._worker_env = usual

    def client(self) -> KeepAlive:
        """Connect to the API."""
        return KeepAlive("127.0.0.1", self.stack.port, self.stack.api.key)

    def idle(self, url: str, count: int) -> Times:
        accepted = {}
        with self.client() as client:
            for _ in range(count):
                _seconds, instant, job = client.post("/jobs", self.job(url))
                accepted[job["execution"]["execution_id"]] = instant
                time.sleep(_PAUSE_SECONDS)
        return accepted

    def delayed(self, url: str, count: int) -> Times:
        due = {}
        first = datetime.now(UTC) + timedelta(seconds=_FIRST_SECONDS + count * _APART_SECONDS)
        with self.client() as client:
            for number in range(count):
                run_at = first + timedelta(seconds=number * _APART_SECONDS)
                job = client.post("/jobs", self.job(url, trigger="DELAYED", run_at=run_at.isoformat()))[2]
                due[job["execution"]["execution_id"]] = run_at.timestamp()
        return due


def settle(database_url: str) -> None:
    """Update the planner's statistics and take a checkpoint, so that all contenders start alike."""
    with closing(psycopg2.connect(database_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("CHECKPOINT")
