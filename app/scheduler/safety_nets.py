"""Safety nets of the kernel: rows that only a manual edit leaves, and the chore that repairs them every hour."""

import logging
from collections.abc import Sequence

from app.queue.executions import on_hold, repairs
from app.scheduler.chore import ChoreContext, Counts, counts_so_far
from app.scheduler.finding import MAX_COUNTED, SafetyNet

log = logging.getLogger(__name__)


class Exhausted(SafetyNet):
    """Executions that wait although their attempts are used up; no claim takes them."""

    problem = "wait although their attempts are used up: somebody edited them"
    fix = "fails them"
    done = "failed"

    def count(self, context: ChoreContext) -> int:
        """Count the executions."""
        return len(repairs.exhausted(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        """Fail the executions."""
        return repairs.fail_exhausted(context.database, limit=MAX_COUNTED)


class UnretiredJobs(SafetyNet):
    """One-shot jobs that are not retired although their executions have ended."""

    check = noun = "jobs"
    problem = "that run once are over and not retired"
    fix = "retires them"
    done = "retired"

    def count(self, context: ChoreContext) -> int:
        """Count the jobs, in a scan of all that run once."""
        return len(repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping))

    def repair_batch(self, context: ChoreContext) -> int:
        """Retire the jobs."""
        found = repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping)
        return repairs.retire(context.database, found)


class Stalled(SafetyNet):
    """Jobs with a fixed delay that wait for no execution; nothing else would set their next run."""

    check = noun = "jobs"
    problem = "with a fixed delay have no next run"
    fix = "sets it"
    done = "restarted"

    def count(self, context: ChoreContext) -> int:
        """Count the jobs."""
        return len(repairs.stalled(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        """Set the next run of the jobs."""
        return repairs.restart_stalled(context.database, repairs.stalled(context.database, limit=MAX_COUNTED))


class OnHold(SafetyNet):
    """Executions that are on hold although their job is not paused."""

    check, noun = "executions", "jobs"
    problem = "have executions on hold and are not paused"
    fix = "releases them"
    done = "freed"

    def count(self, context: ChoreContext) -> int:
        """Count the jobs."""
        return len(repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        """Let the executions go."""
        found = repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED)
        for job_id, retired_by in found.items():
            freed = on_hold.let_the_rest_go(
                context.database, job_id, context.ahead_ms, retired_by=retired_by, stopping=context.stopping
            )
            context.hint_all(freed)
        return len(found)


class NotHeld(SafetyNet):
    """Executions that wait although their job is paused; a worker has released them during the pause."""

    check, noun = "executions", "jobs"
    problem = "are paused and have executions that are not on hold"
    fix = "holds them"
    done = "held"

    def count(self, context: ChoreContext) -> int:
        """Count the jobs."""
        return len(repairs.not_held(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        """Hold the executions."""
        found = repairs.not_held(context.database, limit=MAX_COUNTED)
        for job_id in found:
            on_hold.hold_the_rest(context.database, job_id, stopping=context.stopping)
        return len(found)


SAFETY_NETS: Sequence[SafetyNet] = (Exhausted(), UnretiredJobs(), Stalled(), OnHold(), NotHeld())


class Repairs:
    """Chore that runs all safety nets; one that fails does not keep the next ones from their work."""

    def __init__(self, context: ChoreContext, nets: Sequence[SafetyNet]) -> None:
        self._context = context
        self._nets = nets

    def repair(self) -> Counts:
        """Repair all that the nets find, and log each problem, which no statement leaves."""
        counts, failure = counts_so_far(), None
        for net in self._nets:
            try:
                number = net.repair(self._context)
            except Exception as error:  # noqa: BLE001 - raised below
                failure = error
                continue
            counts.update({net.done: number})
            if number:
                log.warning("repaired: %d %s %s", number, net.noun, net.problem)
        if failure is not None:
            raise failure
        return counts
