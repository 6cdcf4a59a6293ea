"""Findings of checks, and safety nets: checks with a repair, of rows that no statement leaves."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from app.kernel.errors import LockedError
from app.kernel.formats import numbered
from app.kernel.function_types import Run
from app.queue.executions import on_hold, repairs
from app.scheduler.chore import ChoreContext

START_SCHEDULER = "start a scheduler (`python -m app.scheduler`), or read its log: no scheduler runs, or none keeps up"
MAX_COUNTED = 1_000  # rows of a finding, and of one batch of a repair


class Finding(NamedTuple):
    """Problem that a check has found, and its fix in words; `repair` applies a safe fix and returns the rows changed.

    After a finding that `ends` the examination, other checks would only fail.
    """

    check: str
    problem: str
    fix: str
    repair: Run[int] | None = None
    ends: bool = False


Check = Callable[[ChoreContext], Iterator[Finding]]
"""Reads a bounded number of rows and yields the problems; raises OutOfTimeError without time to wait."""


class OutOfTimeError(Exception):
    """A check has to wait for longer than its examination lasts."""


def demand(context: ChoreContext, seconds: float) -> None:
    """Raise OutOfTimeError if the examination ends within these seconds."""
    if time.monotonic() + seconds >= context.until:
        raise OutOfTimeError


def pause(context: ChoreContext, seconds: float) -> None:
    """Wait between two reads of a check; raises OutOfTimeError if the examination ends before."""
    demand(context, seconds)
    time.sleep(seconds)


class SafetyNet:
    """Check with a repair that schedulers run every hour, and `flask doctor --fix` at once.

    `problem` follows a number of `noun`; `done` is the count of its repairs in the log and the metrics.
    """

    check = "executions"
    noun = "execution"
    problem: str
    fix: str
    done: str

    def count(self, context: ChoreContext) -> int:
        """Count the rows to repair, up to MAX_COUNTED."""
        raise NotImplementedError

    def repair_batch(self, context: ChoreContext) -> int:
        """Repair up to MAX_COUNTED rows; return their number."""
        raise NotImplementedError

    def __call__(self, context: ChoreContext) -> Iterator[Finding]:
        if number := self.count(context):
            fix = f"--fix {self.fix}, as a scheduler would within an hour"
            yield Finding(self.check, counted(number, self.noun, self.problem), fix, partial(self.repair, context))

    def repair(self, context: ChoreContext) -> int:
        """Repair all rows in batches, until none is left or the process stops; return their number."""
        return context.until_short(partial(self.repair_batch, context), MAX_COUNTED)

    def noted(self, context: ChoreContext, noun: str, done: repairs.RepairCounts) -> int:
        """Return the number of repaired rows; the log names rows that stay locked from run to run."""
        context.skipped(f"repairs: {self.done}", "its repair waits", {f"{noun} {each}" for each in done.skipped})
        return done.number

    def repair_each(self, context: ChoreContext, jobs: Iterable[str], repair: Callable[[str], object]) -> int:
        """Repair all jobs without a locked row, and return their number."""
        repaired, locked = 0, set[str]()
        for job_id in jobs:
            try:
                repair(job_id)
                repaired += 1
            except LockedError:
                locked.add(job_id)
        return self.noted(context, "one of the executions of job", repairs.RepairCounts(repaired, locked))


def counted(number: int, noun: str, predicate: str = "") -> str:
    """Write a count that ends at MAX_COUNTED; noun and predicate as for `numbered`."""
    return numbered(number, noun, predicate, or_more=number >= MAX_COUNTED)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first names, and the number of further names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class Exhausted(SafetyNet):
    """Waiting executions without attempts left, which no claim takes."""

    problem = "wait with no attempt left, by a manual edit"
    fix = "fails them"
    done = "failed"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.exhausted(context.database, limit=MAX_COUNTED, stopping=context.stopping))

    def repair_batch(self, context: ChoreContext) -> int:
        done = repairs.fail_exhausted(context.database, limit=MAX_COUNTED, stopping=context.stopping)
        return self.noted(context, "execution", done)


class UnretiredJobs(SafetyNet):
    """One-shot jobs that are not retired although their executions have ended."""

    check, noun = "jobs", "one-shot job"
    problem = "are over and not retired"
    fix = "retires them"
    done = "retired"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping))

    def repair_batch(self, context: ChoreContext) -> int:
        found = repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping)
        return self.noted(context, "job", repairs.retire(context.database, found))


class Stalled(SafetyNet):
    """Jobs with a fixed delay and no next run that wait for no execution; nothing else would set their next run."""

    check, noun = "jobs", "fixed-delay job"
    problem = "have no next run"
    fix = "sets it"
    done = "restarted"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.stalled(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        found = repairs.stalled(context.database, limit=MAX_COUNTED)
        return self.noted(context, "job", repairs.restart_stalled(context.database, found))


class OnHold(SafetyNet):
    """Executions that are on hold although their job is not paused."""

    check, noun = "executions", "job"
    problem = "have executions on hold without a pause"
    fix = "releases them"
    done = "freed"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        def free(job_id: str) -> None:
            freed = on_hold.let_the_rest_go(
                context.database,
                job_id,
                context.ahead_ms,
                retired_by=found[job_id],
                stopping=context.stopping,
                unless_locked=True,
            )
            context.hint_all(freed)

        found = repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED)
        return self.repair_each(context, found, free)


class NotHeld(SafetyNet):
    """Waiting executions of paused jobs, which a worker released during the pause."""

    check, noun = "executions", "job"
    problem = "are paused with executions that are not on hold"
    fix = "holds them"
    done = "held"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.not_held(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        hold = partial(on_hold.hold_the_rest, context.database, stopping=context.stopping, unless_locked=True)
        return self.repair_each(context, repairs.not_held(context.database, limit=MAX_COUNTED), hold)


SAFETY_NETS: Sequence[SafetyNet] = (Exhausted(), UnretiredJobs(), Stalled(), OnHold(), NotHeld())
