"""Command lines of the product as in the Procfile, without `python -m`, and its settings in development."""

import os
from collections.abc import Mapping

Command = tuple[str, ...]

WEB: Command = ("gunicorn", "--config", "python:app.web.gunicorn_config", "app:create_app()")
SCHEDULER: Command = ("app.scheduler",)
MIGRATE: Command = ("flask", "--app", "app", "db", "upgrade")
ROTATE_SECRETS: Command = ("flask", "--app", "app", "secrets", "rotate", "--yes")

_SET_BY_STACK = {"TE_DATABASE_URL", "TE_LISTEN_ADDR"}
_DEFAULT_PORT = 8080
_SHUTDOWN = {"TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "5"}  # short, because the user waits after Ctrl-C


def worker(*options: str, processes: int = 2, threads: int = 8, module: str = "actors") -> Command:
    """Return the command line of a worker with further options of Dramatiq."""
    return ("dramatiq", module, "--processes", str(processes), "--threads", str(threads), *options)


def whole(worker_command: Command | None = None, *, workers: int = 1, schedulers: int = 1) -> Mapping[str, Command]:
    """Return the commands of a whole stack by process name, such as `web`, `worker-1` and `scheduler-1`."""
    named = {"web": WEB}
    named |= {f"worker-{number}": worker_command or worker() for number in range(1, workers + 1)}
    return named | {f"scheduler-{number}": SCHEDULER for number in range(1, schedulers + 1)}


def create_key(name: str, scopes: str) -> Command:
    return ("flask", "--app", "app", "api-keys", "create", name, "--scopes", scopes)


def product_environment() -> dict[str, str]:
    """Return the TE_ variables of the environment that the stack does not set itself, such as TE_LOG_LEVEL."""
    # An empty variable counts as unset and must not replace a value of the stack.
    given = {name: value for name, value in os.environ.items() if name.startswith("TE_") and value}
    return _SHUTDOWN | {name: value for name, value in given.items() if name not in _SET_BY_STACK}


def preferred_port() -> int:
    """Return the port of TE_LISTEN_ADDR, or 8080; the stack chooses another port if it is in use."""
    _host, _colon, port = os.environ.get("TE_LISTEN_ADDR", "").rpartition(":")
    return int(port) if port.isdigit() else _DEFAULT_PORT
