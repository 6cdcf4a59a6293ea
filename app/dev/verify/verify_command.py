"""Command line of the verifier: its options become a run, its failures one line."""

import os
from pathlib import Path

import click

from app.dev.interrupt import catch_signals
from app.dev.process.child import ChildError
from app.dev.stack.stack_client import ApiError
from app.dev.terminal import Terminal
from app.dev.verify.run import verify
from app.dev.verify.stored import OtherWorkError
from app.dev.verify.verify_options import FaultKind, Options, seconds
from app.kernel.errors import TaskExecutorError

_INTERRUPTED = 130
_KINDS = {
    "kill_workers": FaultKind.KILL_WORKER,
    "kill_scheduler": FaultKind.KILL_SCHEDULER,
    "restart_database": FaultKind.RESTART_DATABASE,
    "partition": FaultKind.PARTITION,
    "read_only": FaultKind.READ_ONLY,
    "lock_rows": FaultKind.LOCK_ROWS,
    "hang": FaultKind.HANG,
    "rotate_keys": FaultKind.ROTATE_KEYS,
}
_NEED_OUR_DATABASE = {
    "--restart-database": FaultKind.RESTART_DATABASE,
    "--partition": FaultKind.PARTITION,
    "--read-only": FaultKind.READ_ONLY,
    "--lock-rows": FaultKind.LOCK_ROWS,
    "--open-deliveries": FaultKind.OPEN_DELIVERIES,
}
_ALL_SKEW, _ALL_OPEN, _ALL_SHARDS = 0.5, 1000, 16


def run(
    *,
    duration: str,
    skew: str,
    everything: bool,
    open_deliveries: int,
    shards: int | None,
    pause_storm: bool,
    json_file: Path | None,
    junit_file: Path | None,
    rate: float,
    seed: int,
    **kinds: bool,
) -> int:
    """Run with the options of the command line and return the exit status; `kinds` are the faults that it names."""
    faults = {kind for option, kind in _KINDS.items() if kinds[option] or everything}
    open_deliveries = open_deliveries or (_ALL_OPEN if everything else 0)
    options = Options(
        duration=_seconds("--duration", duration),
        rate=rate,
        seed=seed,
        faults=frozenset(faults | ({FaultKind.OPEN_DELIVERIES} if open_deliveries else set())),
        skew=_seconds("--skew", skew) or (_ALL_SKEW if everything else 0.0),
        shards=shards or (_ALL_SHARDS if everything else None),
        open_deliveries=open_deliveries,
        pause_storm=pause_storm or everything,
        database_url=os.environ.get("TE_DATABASE_URL", "").strip() or None,
        json_file=json_file,
        junit_file=junit_file,
    )
    impossible = [name for name, kind in _NEED_OUR_DATABASE.items() if kind in options.faults]
    if options.database_url and impossible:
        raise click.UsageError(
            f"{', '.join(impossible)} need the PostgreSQL that verify starts itself: unset TE_DATABASE_URL"
        )
    return _run(options)


def _run(options: Options) -> int:
    terminal = Terminal()
    terminal.line(("Task Executor", "bold"), f": verify, seed {options.seed}")
    catch_signals()
    try:
        return verify(options, terminal)
    except KeyboardInterrupt:
        terminal.line("\n  interrupted; all processes and servers are stopped")
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
