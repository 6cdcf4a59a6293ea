"""System under test: servers, proxies and processes."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.dev.process.proxy import Proxy
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.receiver_targets import LocalTargets, local_targets
from app.dev.stack.runner import Stack
from app.dev.terminal import Terminal
from app.dev.verify import clock
from app.dev.verify.arrival_record import ArrivalRecord
from app.dev.verify.verify_options import FaultKind, Options

LEASE_SECONDS = 4.0
_SPARE = 200
_COMMANDS = programs.whole(programs.worker(processes=1, threads=4), workers=2, schedulers=2)
# Sign of the clock error by process.
_SKEWED = {"worker-1": 1, "worker-2": -1, "scheduler-1": 1, "scheduler-2": -1}
# Shorter than the defaults, so that a short run includes an expired lease and the retry after it.
_SETTINGS = {
    "TE_WORKER_TIMEOUT_SEC": f"{LEASE_SECONDS:g}",
    "TE_RECLAIM_INTERVAL_SEC": "1",
    "TE_LOOK_AHEAD_SEC": "2",
    "TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "10",
}


@dataclass(frozen=True, slots=True)
class System:
    """Running servers and processes; `stack.database_url` bypasses the proxies."""

    stack: Stack
    targets: LocalTargets
    sightings: ArrivalRecord
    postgres: Postgres
    """Not started if the caller gave a database."""
    proxies: Mapping[str, Proxy]
    """Proxies in front of the database, by process."""

    def thaw(self) -> None:
        """Continue frozen processes, so that they can stop."""
        for name in self.stack.names:
            child = self.stack.process(name)
            if child.is_running:
                os.killpg(child.pid, signal.SIGCONT)


@contextmanager
def running(options: Options, logs: Path, terminal: Terminal) -> Iterator[System]:
    """Start everything and stop it at the end."""
    sightings, postgres, proxies = ArrivalRecord(), Postgres(), dict[str, Proxy]()
    with ExitStack() as opened:
        targets = opened.enter_context(local_targets(terminal.step, record=sightings))
        if options.database_url is None:
            with terminal.step("PostgreSQL, a new and durable cluster"):
                opened.enter_context(postgres)
        if FaultKind.PARTITION in options.faults:
            proxies = {name: opened.enter_context(Proxy(postgres.port)) for name in _COMMANDS}
        url = options.database_url or postgres.url
        environments: dict[str, dict[str, str]] = {name: {} for name in _COMMANDS}
        for name, sign in _SKEWED.items() if options.skew else ():
            environments[name] |= clock.environment(sign * options.skew)
        for name, proxy in proxies.items():
            environments[name]["TE_DATABASE_URL"] = proxy.url(url)
        stack = Stack(
            database_url=url,
            commands=_COMMANDS,
            env=_settings(options),
            process_env=environments,
            logs=logs,
            step=terminal.step,
        )
        opened.enter_context(stack)
        yield System(stack, targets, sightings, postgres, proxies)


def _settings(options: Options) -> dict[str, str]:
    chosen = _SETTINGS.copy()
    if options.shards is not None:
        chosen["TE_QUEUE_SHARDS"] = str(options.shards)
    if options.open_deliveries:
        # Either worker can hold all open deliveries in addition to the ordinary load.
        capacity = str(options.open_deliveries + _SPARE)
        chosen |= {"TE_WORKER_MAX_CONCURRENT": capacity, "TE_CONNECTIONS_PER_HOST": capacity}
    given = {name: value for name, value in os.environ.items() if name.startswith("TE_")}
    return chosen | {name: value for name, value in given.items() if name not in {"TE_DATABASE_URL", "TE_LISTEN_ADDR"}}
