"""Command line of the verifier."""

import os
from datetime import timedelta
from typing import Any

import click

from app.dev.interrupt import catch_signals
from app.dev.process.child import ChildError
from app.dev.stack.stack_client import ApiError
from app.dev.terminal import Terminal
from app.dev.verify.run import verify
from app.dev.verify.stored import OtherWorkError
from app.dev.verify.verify_options import FaultKind, Options
from app.kernel.errors import TaskExecutorError

_INTERRUPTED = 130
_NEED_OUR_DATABASE = (
    FaultKind.RESTART_DATABASE,
    FaultKind.PARTITION,
    FaultKind.READ_ONLY,
    FaultKind.LOCK_ROWS,
    FaultKind.OPEN_DELIVERIES,
)
_ALL_SKEW, _ALL = 0.5, {"open_deliveries": 1000, "shards": 16, "pause_storm": True}
_OTHERS = ("rate", "seed", "shards", "open_deliveries", "pause_storm", "json_file", "junit_file")


def run(**given: Any) -> int:
    """Run with the options of the command line and return the exit status; failures become messages."""
    options = _options(**given)
    impossible = [f"--{kind.replace('_', '-')}" for kind in _NEED_OUR_DATABASE if kind in options.faults]
    if options.database_url and impossible:
        raise click.UsageError(
            f"{', '.join(impossible)} need the PostgreSQL that verify starts itself: unset TE_DATABASE_URL"
        )
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


def _options(*, everything: bool, duration: timedelta, skew: timedelta, **given: Any) -> Options:
    if everything:
        given |= {name: given[name] or value for name, value in _ALL.items()}
    return Options(
        duration=duration.total_seconds(),
        skew=skew.total_seconds() or (_ALL_SKEW if everything else 0.0),
        faults=frozenset(kind for kind in FaultKind if given[kind] or everything),
        database_url=os.environ.get("TE_DATABASE_URL", "").strip() or None,
        **{name: given[name] for name in _OTHERS},
    )
