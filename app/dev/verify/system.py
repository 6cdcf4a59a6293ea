"""System under test: servers, proxies, processes, and who is allowed to break what."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.dev.process.proxy import Proxy
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.runner import Stack
from app.dev.terminal import Terminal
from app.dev.verify import clock
from app.dev.verify.ledger import Sightings
from app.dev.verify.verify_options import FaultKind, Options

LEASE_SECONDS = 4.0
_ROOM = 200
_COMMANDS = programs.whole(programs.worker(processes=1, threads=4), workers=2, schedulers=2)
# Which processes are ahead and which behind, when clocks are to be wrong.
_SKEWED = {"worker-1": 1, "worker-2": -1, "scheduler-1": 1, "scheduler-2": -1}
# Quicker than the defaults, so that a short run sees a lease run out and a retry after it.
_SETTINGS = {
    "TE_WORKER_TIMEOUT_SEC": f"{LEASE_SECONDS:g}",
    "TE_RECLAIM_INTERVAL_SEC": "1",
    "TE_LOOK_AHEAD_SEC": "2",
    "TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "10",
}


@dataclass(frozen=True, slots=True)
class System:
    """Everything that runs, and the URL of the database that is not behind a proxy."""

    stack: Stack
    targets: LocalTargets
    sightings: Sightings
    ways: dict[str, Proxy]
    """The proxies between processes and the database, by the names of the processes."""
    postgres: Postgres | None
    database_url: str


@contextmanager
def running(options: Options, logs: Path, terminal: Terminal) -> Iterator[System]:
    """Start everything; stops it at the end."""
    sightings = Sightings()
    with (
        LocalTargets(terminal.step, record=sightings) as targets,
        _database(options, terminal) as postgres,
        ExitStack() as opened,
    ):
        url = options.database_url or (postgres.url if postgres else "")
        ways: dict[str, Proxy] = {}
        if postgres is not None and FaultKind.PARTITION in options.faults:
            ways = {name: opened.enter_context(Proxy(postgres.port)) for name in _COMMANDS}
        stack = Stack(
            database_url=url,
            commands=_COMMANDS,
            env=_settings(options),
            process_env={name: _own(name, url, ways, options) for name in _COMMANDS},
            logs=logs,
            step=terminal.step,
        )
        with stack:
            yield System(stack, targets, sightings, ways, postgres, url)


@contextmanager
def _database(options: Options, terminal: Terminal) -> Iterator[Postgres | None]:
    if options.database_url is not None:
        yield None
        return
    postgres = Postgres()
    with terminal.step("PostgreSQL, a new and durable cluster"):
        postgres.start()
    with postgres:
        yield postgres


def _settings(options: Options) -> dict[str, str]:
    chosen = _SETTINGS.copy()
    if options.shards is not None:
        chosen["TE_QUEUE_SHARDS"] = str(options.shards)
    if options.open_deliveries:
        # Each of the two workers could have them all, beside the ordinary load.
        room = str(options.open_deliveries + _ROOM)
        chosen |= {"TE_WORKER_MAX_CONCURRENT": room, "TE_CONNECTIONS_PER_HOST": room}
    given = {name: value for name, value in os.environ.items() if name.startswith("TE_") and name != "TE_DATABASE_URL"}
    given.pop("TE_LISTEN_ADDR", None)
    return chosen | given


def _own(name: str, url: str, ways: dict[str, Proxy], options: Options) -> dict[str, str]:
    """Choose the settings of one process: its way to the database, and its idea of the time."""
    own = clock.environment(_SKEWED[name] * options.skew) if options.skew and name in _SKEWED else {}
    if name in ways:
        own["TE_DATABASE_URL"] = ways[name].url(url)
    return own


def thaw(system: System) -> None:
    """Let every process run, so that each can be asked to end."""
    for name in system.stack.names:
        child = system.stack.process(name)
        if child.is_running:
            os.killpg(child.pid, signal.SIGCONT)
