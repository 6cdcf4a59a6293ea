"""From the options of the command line to a run, and its failures to one line."""

import os
from pathlib import Path

import click

from app.dev.interrupt import catch_signals
from app.dev.process.child import ChildError
from app.dev.stack.client import ApiError
from app.dev.terminal import Terminal
from app.dev.verify.options import FaultKind, Options, seconds
from app.dev.verify.run import verify
from app.dev.verify.stored import OtherWorkError
from app.errors import TaskExecutorError

_INTERRUPTED = 130


def run(
    *,
    duration: str,
    rate: float,
    kill_workers: bool,
    kill_scheduler: bool,
    restart_database: bool,
    partition: bool,
    skew: str,
    seed: int,
    json_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Run with these options and return the exit status."""
    database_url = os.environ.get("TE_DATABASE_URL", "").strip() or None
    chosen = {
        FaultKind.KILL_WORKER: kill_workers,
        FaultKind.KILL_SCHEDULER: kill_scheduler,
        FaultKind.RESTART_DATABASE: restart_database,
        FaultKind.PARTITION: partition,
    }
    if database_url and (restart_database or partition):
        raise click.UsageError(
            "--restart-database and --partition need the PostgreSQL that verify starts itself: unset TE_DATABASE_URL"
        )
    options = Options(
        duration=_seconds("--duration", duration),
        rate=rate,
        seed=seed,
        faults=frozenset(kind for kind, wanted in chosen.items() if wanted),
        skew=_seconds("--skew", skew),
        database_url=database_url,
        json_file=json_file,
        junit_file=junit_file,
    )
    return _run(options)


def _run(options: Options) -> int:
    terminal = Terminal()
    terminal.line(("Task Executor", "bold"), f": verify, seed {options.seed}")
    catch_signals()
    try:
        return verify(options, terminal)
    except KeyboardInterrupt:
        terminal.line("\n  interrupted; everything that was started is stopped")
        return _INTERRUPTED
    except (ChildError, ApiError, OtherWorkError) as error:
        raise click.ClickException(str(error)) from error
    except TaskExecutorError as error:
        raise click.ClickException(error.message) from error


def _seconds(name: str, text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=name) from None
