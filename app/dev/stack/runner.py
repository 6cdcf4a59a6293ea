"""The whole product as processes of this machine: database, API, workers, schedulers."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

import requests
from cryptography.fernet import Fernet

from app.dev.process.child import Child, ChildError, Echo
from app.dev.process.ports import free_port
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.client import Api
from app.dev.stack.steps import Step, silently

DEFAULT_LOGS = programs.ROOT / ".dev" / "logs"
READY_SECONDS = 60.0
STOP_SECONDS = 40.0  # a worker may take TE_WORKER_SHUTDOWN_TIMEOUT_SEC, 30 by default
_COMMAND_SECONDS = 120.0
_SCOPES = "admin,jobs:write,read"


class Stack:
    """Start and stop everything; a context manager.

    Its processes are called `web`, `worker-1`, `scheduler-1` and so on. Without a `database_url` it runs a PostgreSQL
    of its own, `stack.postgres`. Start it from a thread that stays: see Child.
    """

    def __init__(
        self,
        *,
        database_url: str | None = None,
        web: bool = True,
        workers: int = 1,
        schedulers: int = 1,
        worker_processes: int = 2,
        worker_threads: int = 8,
        env: Mapping[str, str] | None = None,
        process_env: Mapping[str, Mapping[str, str]] | None = None,
        port: int | None = None,
        fast_database: bool = False,
        logs: Path = DEFAULT_LOGS,
        echo: Echo | None = None,
        step: Step = silently,
    ) -> None:
        self.postgres = Postgres(fast=fast_database) if database_url is None else None
        self.port = free_port(port)
        self.env = _own_environment() | {"TE_LISTEN_ADDR": f"127.0.0.1:{self.port}"} | dict(env or {})
        self._process_env = process_env or {}  # by name: what one process is told and the others are not
        self.logs = logs
        self._database_url = database_url
        self._echo = echo
        self._step = step
        self._api: Api | None = None
        self._commands: dict[str, tuple[str, ...]] = {"web": programs.WEB} if web else {}
        worker = programs.worker(worker_processes, worker_threads)
        self._commands |= {f"worker-{number}": worker for number in range(1, workers + 1)}
        self._commands |= {f"scheduler-{number}": programs.SCHEDULER for number in range(1, schedulers + 1)}
        self._children: dict[str, Child] = {}
        self._stopped_on_purpose: set[str] = set()

    @property
    def url(self) -> str:
        """Return the address of the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_url(self) -> str:
        if self._database_url is not None:
            return self._database_url
        if self.postgres is None:
            raise ChildError("the stack has no database")
        return self.postgres.url

    @property
    def api(self) -> Api:
        """Return a client of the API that holds a key with every scope."""
        if self._api is None:
            self._api = Api(self.url, self.create_key("demo"))
        return self._api

    @property
    def names(self) -> list[str]:
        return list(self._commands)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything, and return once the API is ready; raises ChildError with the output of what failed."""
        self.logs.mkdir(parents=True, exist_ok=True)
        try:
            if self.postgres is not None:
                with self._step("PostgreSQL, a new and durable cluster"):
                    self.postgres.start()
            self.env["TE_DATABASE_URL"] = self.database_url
            with self._step("the schema: flask --app app db upgrade"):
                self.run(programs.MIGRATE)
            with self._step(f"the processes: {', '.join(self._commands)}"):
                self._start_processes()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ask all processes to end, kill those that don't within the timeout, then stop the database.

        A KeyboardInterrupt meanwhile ends the waiting, not the stopping.
        """
        if self._api is not None:
            self._api.close()
            self._api = None
        children = list(self._children.values())
        with suppress(KeyboardInterrupt):
            for child in children:
                child.send(signal.SIGTERM)
            deadline = time.monotonic() + timeout
            for child in children:
                child.wait(max(0.0, deadline - time.monotonic()))
        for child in children:
            child.kill()
        self._children.clear()
        if self.postgres is not None:
            self.postgres.stop()

    def _start_processes(self) -> None:
        for name in self._commands:
            self.start_process(name)
        if "web" in self._commands:
            self.wait_until_ready()

    def process(self, name: str) -> Child:
        """Return a process by name; raises KeyError when it was never started."""
        return self._children[name]

    def start_process(self, name: str) -> Child:
        """Start a process of that name, again if it has ended."""
        command, env = programs.argv(self._commands[name]), self.env | dict(self._process_env.get(name, {}))
        child = Child(name, command, log=self.logs / f"{name}.log", env=env, cwd=programs.ROOT, echo=self._echo)
        if name not in self._children:
            child.log.unlink(missing_ok=True)
        self._children[name] = child
        self._stopped_on_purpose.discard(name)
        child.start()
        return child

    def kill(self, name: str) -> None:
        """End a process and its children with SIGKILL."""
        self._stopped_on_purpose.add(name)
        self._children[name].kill()

    def terminate(self, name: str, timeout: float = STOP_SECONDS) -> int | None:
        """Send SIGTERM, wait for the end (then SIGKILL), and return the exit status."""
        self._stopped_on_purpose.add(name)
        return self._children[name].stop(timeout)

    def restart(self, name: str, timeout: float = STOP_SECONDS) -> Child:
        """Terminate a process and start it again."""
        self.terminate(name, timeout)
        return self.start_process(name)

    def check(self) -> None:
        """Raise ChildError when a process has ended that nobody stopped."""
        for name, child in self._children.items():
            if not child.is_running and name not in self._stopped_on_purpose:
                raise ChildError(
                    f"{child.name} ended with status {child.returncode}; its last lines ({child.log}):\n{child.tail()}"
                )
        if self.postgres is not None and not self.postgres.is_running:
            raise ChildError("PostgreSQL has ended")

    def wait_until_ready(self, timeout: float = READY_SECONDS) -> None:
        """Wait until GET /health/ready answers 200."""
        deadline = time.monotonic() + timeout
        last = "no answer"
        with closing(Api(self.url, key="")) as api:
            while time.monotonic() < deadline:
                self.check()
                last = _readiness(api)
                if last == "ready":
                    return
                time.sleep(0.05)
        tails = "\n".join(f"--- {child.name}\n{child.tail(10)}" for child in self._children.values())
        raise ChildError(f"the API was not ready after {timeout:.0f} s, it answered: {last}\n{tails}")

    def create_key(self, name: str, scopes: str = _SCOPES) -> str:
        """Make an API key the way an administrator does."""
        return self.run(programs.create_key(name, scopes)).strip().splitlines()[-1]

    def revoke_key(self, key: str) -> None:
        """Refuse a key from now on."""
        self.run(programs.revoke_key(key))

    def run(self, module: tuple[str, ...]) -> str:
        """Run a command of the product to its end and return its output; raises ChildError when it fails."""
        done = subprocess.run(
            programs.argv(module),
            env=self.env,
            cwd=programs.ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
        if done.returncode != 0:
            raise ChildError(f"`{' '.join(module)}` ended with status {done.returncode}:\n{done.stderr or done.stdout}")
        return done.stdout


def _readiness(api: Api) -> str:
    try:
        answer = api.request("GET", "/health/ready", timeout=2)
    except requests.RequestException as error:
        return type(error).__name__
    return "ready" if answer.ok else f"{answer.status_code} {answer.text[:300]}"


def _own_environment() -> dict[str, str]:
    """Take the environment without the product's settings in it, so that a run is the same at every desk."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}
    return inherited | {"PYTHONUNBUFFERED": "1", "TE_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
