"""Findings of checks, and safety nets: checks with a repair, of rows that no statement leaves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from app.kernel.function_types import Run
from app.scheduler.chore import ChoreContext

START_SCHEDULER = "start a scheduler (`python -m app.scheduler`), or look into its log: none runs, or none keeps up"
MAX_COUNTED = 1_000  # rows of a finding, and of one batch of a repair


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a check has found, and its fix in words; `repair` applies a safe fix and returns the rows changed.

    After a finding that `ends` the examination, other checks would only fail.
    """

    check: str
    problem: str
    fix: str
    repair: Run[int] | None = None
    ends: bool = False


Check = Callable[[ChoreContext], Iterator[Finding]]
"""Reads a bounded number of rows and yields the problems."""


class SafetyNet:
    """Check with a repair that schedulers run every hour, and `flask doctor --fix` at once.

    `problem` follows a number of `noun`; `done` is the count of its repairs in the log and the metrics.
    """

    check = "executions"
    noun = "executions"
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
            problem = f"{counted(number, self.noun)} {self.problem}"
            yield Finding(self.check, problem, fix, partial(self.repair, context))

    def repair(self, context: ChoreContext) -> int:
        """Repair all rows in batches, until none is left or the process stops; return their number."""
        return context.until_short(partial(self.repair_batch, context), MAX_COUNTED)


def counted(number: int, noun: str) -> str:
    """Write a count that ends at MAX_COUNTED."""
    return f"{number}{' or more' if number >= MAX_COUNTED else ''} {noun}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first names, and the number of further ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
