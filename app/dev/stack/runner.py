"""Stack: database, API, workers and schedulers as local processes."""

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, suppress
from itertools import count
from pathlib import Path
from typing import Self

import requests
from cryptography.fernet import Fernet
from sqlalchemy.exc import DBAPIError

from app.dev.process.child import Child, ChildError, Echo
from app.dev.process.ports import free_port
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.programs import Command
from app.dev.stack.stack_client import Api
from app.dev.stack.stack_processes import STOP_SECONDS, Processes, Step, silently
from app.kernel import db
from app.kernel.access import api_keys, console_sessions
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from schema import migrate
from schema.lease import MigrationBusyError

_LOGS = Path(".dev") / "logs"  # below the current directory
_READY_SECONDS = 60.0
_SCOPES = (Scope.ADMIN, Scope.JOBS_WRITE, Scope.READ)


class Stack(Processes):
    """Processes of the product over one database; as a context manager it starts and stops them all.

    Without `database_url` it runs its own PostgreSQL, `stack.postgres`. `commands` maps process names to the commands
    of start(), by default a whole stack. `process_env` adds environment variables to single processes, by name.
    """

    def __init__(
        self,
        *,
        database_url: str | None = None,
        commands: Mapping[str, Command] | None = None,
        env: Mapping[str, str] | None = None,
        process_env: Mapping[str, Mapping[str, str]] | None = None,
        port: int | None = None,
        logs: Path | None = None,
        cwd: Path | None = None,
        python: Path | None = None,
        echo: Echo | None = None,
        step: Step = silently,
    ) -> None:
        # Without the product's settings of this process, so that runs are reproducible.
        own = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}
        own |= {"PYTHONUNBUFFERED": "1", "TE_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
        super().__init__(own, logs=logs or Path.cwd() / _LOGS, cwd=cwd, python=python, echo=echo)
        self.port = free_port(port)
        self.env |= {"TE_LISTEN_ADDR": f"127.0.0.1:{self.port}"} | dict(env or {})
        self.postgres = Postgres() if database_url is None else None
        self.env |= {} if database_url is None else {"TE_DATABASE_URL": database_url}
        self._commands = programs.whole() if commands is None else commands
        self._process_env = process_env or {}
        self._step = step
        self._api: Api | None = None
        self._is_this_tree = python is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_url(self) -> str:
        """Return the URL of the database; raises ChildError before the start of its server."""
        if "TE_DATABASE_URL" not in self.env:
            raise ChildError("the stack has no database yet")
        return self.env["TE_DATABASE_URL"]

    @property
    def api(self) -> Api:
        """Return an API client with all scopes."""
        if self._api is None:
            self._api = Api(self.url, self.create_key("demo"))
        return self._api

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all and wait until the API is ready; raises ChildError with the output of a failed process."""
        try:
            if self.postgres is not None:
                with self._step("PostgreSQL, a new and durable cluster"):
                    self.postgres.start()
                self.env["TE_DATABASE_URL"] = self.postgres.url
            with self._step("the schema, as flask --app app db upgrade makes it"):
                self._migrate()
            with self._step(f"the processes: {', '.join(self._commands)}"):
                for name, command in self._commands.items():
                    self.launch(name, command, **self._process_env.get(name, {}))
                if "web" in self._commands:
                    self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Stop all processes, then the stack's own database."""
        if self._api is not None:
            self._api.close()
            self._api = None
        super().stop(timeout)
        if self.postgres is not None:
            self.postgres.stop()

    def check(self) -> None:
        """Raise ChildError if a process or the stack's own database ended unexpectedly."""
        super().check()
        if self.postgres is not None and not self.postgres.is_running:
            raise ChildError("PostgreSQL has ended")

    def web(self, **env: str) -> Child:
        child = self.launch("web", programs.WEB, **env)
        self.wait_until_ready()
        return child

    def worker(self, *options: str, processes: int = 1, threads: int = 4, module: str = "actors", **env: str) -> Child:
        """Start another worker and wait until its processes claim."""
        command = programs.worker(*options, processes=processes, threads=threads, module=module)
        child = self.launch(self._next_name("worker"), command, **env)
        self.wait_for_line(child, "claims from", times=processes)
        return child

    def scheduler(self, **env: str) -> Child:
        return self.launch(self._next_name("scheduler"), programs.SCHEDULER, **env)

    def wait_until_ready(self, timeout: float = _READY_SECONDS) -> None:
        """Wait until GET /health/ready answers 200."""
        deadline = time.monotonic() + timeout
        last = "no answer"
        with closing(Api(self.url, key="")) as api:
            while time.monotonic() < deadline:
                self.check()
                try:
                    answer = api.request("GET", "/health/ready", timeout=2)
                except requests.RequestException as error:
                    last = type(error).__name__
                else:
                    if answer.ok:
                        return
                    last = f"{answer.status_code} {answer.text[:300]}"
                time.sleep(0.05)
        raise ChildError(f"the API was not ready after {timeout:.0f} s; last answer: {last}\n{self.tails(10)}")

    def create_key(self, name: str) -> str:
        if self._is_this_tree:
            with suppress(UnavailableError), self._database() as database:
                return api_keys.create(database, name, _SCOPES, None)
        return self.run(programs.create_key(name, ",".join(_SCOPES))).strip().splitlines()[-1]

    def revoke_key(self, key: str) -> None:
        with self._database() as database:
            api_keys.revoke(database, api_keys.id_in(key))

    def console_link(self) -> str:
        """Return the address of the console that signs in once, within a minute, with the key of `api`."""
        with self._database() as database:
            return console_sessions.link_to(self.url, console_sessions.new_link(database, api_keys.id_in(self.api.key)))

    def _migrate(self) -> None:
        """Migrate inside this process, which is faster than a command.

        If that fails, run the command: it waits for the database and reports errors. A key is created the same way.
        """
        if self._is_this_tree:
            with suppress(DBAPIError, MigrationBusyError):
                migrate.upgrade(self.database_url)
                return
        self.run(programs.MIGRATE)

    def _database(self) -> AbstractContextManager[Database]:
        return closing(db.connect(self.database_url, pool_size=1, application_name="te-dev"))

    def _next_name(self, kind: str) -> str:
        return next(name for number in count(1) if (name := f"{kind}-{number}") not in self.names)
