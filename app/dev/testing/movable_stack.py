"""Movable stack: PostgreSQL with a moved clock, the processes of the product, and the operations of the plugin."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path

from psycopg2 import errors

from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.testing import leftovers
from app.dev.testing.clock_mover import ClockMover
from app.dev.testing.holds import Holds
from app.dev.testing.moved_clock import MovedClock
from app.feature import completion_handlers
from app.features import FEATURES
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.function_types import never
from app.kernel.wakeup import WakeupSender
from app.queue.executions.watermark import ScanPace
from app.scheduler.chore import ChoreContext
from app.scheduler.chore_plan import plan
from app.scheduler.outbox_chore import Outbox

_MOVED = ("app.dev.testing.moved_limits", "app.dev.testing.forgotten_results")
_WORKER = ("dramatiq", "actors", *_MOVED, "--processes", "1", "--threads", "4")
_COMMANDS = programs.whole(_WORKER)
# Of a completion that a worker writes between two of the deletions.
_RACES = (errors.ForeignKeyViolation, errors.DeadlockDetected)
_MAX_CLEARS = 10
_SETTINGS = {
    "TE_WEB_WORKERS": "1",
    # A renewal during a move would end the lease too early. So a lease is longer than a session of tests, and is never
    # renewed; `Stack.check` notices a dead worker.
    "TE_WORKER_TIMEOUT_SEC": "1000000",
}


class MovableStack:
    """Running stack whose clock can be moved; one thread uses it."""

    def __init__(self, stack: Stack, clock: MovedClock, mover: ClockMover) -> None:
        self._stack = stack
        self._clock = clock
        self._mover = mover

    def access(self) -> dict[str, str]:
        """Return the URL of the API, a key with all scopes, the URL of the database and the folder of the logs."""
        stack = self._stack
        return {"url": stack.url, "key": stack.api.key, "database_url": stack.database_url, "logs": str(stack.logs)}

    def now(self) -> str:
        """Return the moved time in ISO 8601."""
        return self._clock.now().isoformat()

    def advance(self, milliseconds: float, seconds: float) -> int:
        """Move the clock, and return the number of visited instants; see `ClockMover.to` for errors."""
        return self._mover.to(self._clock.now() + timedelta(milliseconds=milliseconds), seconds=seconds)

    def clear(self) -> list[str]:
        """Delete the jobs and their consequences, return to the machine's time, and return the deleted executions."""
        for number in range(1, _MAX_CLEARS + 1):
            try:
                deleted = leftovers.delete(self._clock)
                break
            except _RACES:
                if number == _MAX_CLEARS:
                    raise
        self._clock.go_back()
        return deleted


@contextmanager
def running(
    logs: Path, *, back: timedelta = timedelta(0), env: Mapping[str, str] | None = None
) -> Iterator[MovableStack]:
    """Start the stack with its clock set back, with the logs of its processes in a folder, and stop it at the end.

    Raises ChildError with the output of a process that does not start.
    """
    with ExitStack() as opened:
        postgres = opened.enter_context(Postgres(fast=True))
        clock = opened.enter_context(closing(MovedClock(postgres.url, back)))
        stack = Stack(database_url=postgres.url, commands=_COMMANDS, env=_SETTINGS | dict(env or {}), logs=logs)
        opened.callback(stack.stop, 0)  # nothing that they have not finished is needed
        stack.start()
        clock.reach_functions()
        stack.wait_for_line(stack.process("worker-1"), "claims from")
        settings = Settings.from_env(stack.env)
        database = opened.enter_context(closing(db.connect(postgres.url, pool_size=2, application_name="te-testing")))
        hint = WakeupSender(database, "").hint
        # Each read begins at the start of its index, because the clock may have been moved back.
        pace = ScanPace(longest_seconds=0.0)
        context = ChoreContext(database, settings, hint=hint, stopping=never, scan_pace=pace)
        outbox = Outbox(context, completion_handlers(FEATURES))
        mover = ClockMover(clock, plan(context), outbox, Holds(database), hint=hint, check=stack.check)
        yield MovableStack(stack, clock, mover)
