"""Safety nets of the kernel: repairs of rows that only a manual edit leaves."""

from collections.abc import Sequence

from app.queue.executions import on_hold, repairs
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, SafetyNet


class Exhausted(SafetyNet):
    """Waiting executions without attempts left, which no claim takes."""

    problem = "wait although their attempts are used up: somebody edited them"
    fix = "fails them"
    done = "failed"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.exhausted(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        return repairs.fail_exhausted(context.database, limit=MAX_COUNTED)


class UnretiredJobs(SafetyNet):
    """One-shot jobs that are not retired although their executions have ended."""

    check = noun = "jobs"
    problem = "that run once are over and not retired"
    fix = "retires them"
    done = "retired"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping))

    def repair_batch(self, context: ChoreContext) -> int:
        found = repairs.finished(context.database, limit=MAX_COUNTED, stopping=context.stopping)
        return repairs.retire(context.database, found)


class Stalled(SafetyNet):
    """Jobs with a fixed delay and no next run that wait for no execution; nothing else would set their next run."""

    check = noun = "jobs"
    problem = "with a fixed delay have no next run"
    fix = "sets it"
    done = "restarted"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.stalled(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        return repairs.restart_stalled(context.database, repairs.stalled(context.database, limit=MAX_COUNTED))


class OnHold(SafetyNet):
    """Executions that are on hold although their job is not paused."""

    check, noun = "executions", "jobs"
    problem = "have executions on hold and are not paused"
    fix = "releases them"
    done = "freed"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        found = repairs.orphaned_on_hold(context.database, limit=MAX_COUNTED)
        for job_id, retired_by in found.items():
            freed = on_hold.let_the_rest_go(
                context.database, job_id, context.ahead_ms, retired_by=retired_by, stopping=context.stopping
            )
            context.hint_all(freed)
        return len(found)


class NotHeld(SafetyNet):
    """Waiting executions of paused jobs, which a worker released during the pause."""

    check, noun = "executions", "jobs"
    problem = "are paused and have executions that are not on hold"
    fix = "holds them"
    done = "held"

    def count(self, context: ChoreContext) -> int:
        return len(repairs.not_held(context.database, limit=MAX_COUNTED))

    def repair_batch(self, context: ChoreContext) -> int:
        found = repairs.not_held(context.database, limit=MAX_COUNTED)
        for job_id in found:
            on_hold.hold_the_rest(context.database, job_id, stopping=context.stopping)
        return len(found)


SAFETY_NETS: Sequence[SafetyNet] = (Exhausted(), UnretiredJobs(), Stalled(), OnHold(), NotHeld())
