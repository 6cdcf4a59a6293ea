"""A scheduler with a stalled chore: `python -m tests.acceptance.faults.blocked_scheduler`."""

import sys
import threading
from functools import partial
from itertools import count

from app.scheduler import __main__ as program
from app.scheduler.chore import Counts
from app.scheduler.scheduler_process import SchedulerProcess
from app.scheduler.upkeep import Promoter

_promote, _runs = Promoter.promote, count(1)


def _block(promoter: Promoter) -> Counts:
    if next(_runs) > 2:
        threading.Event().wait()
    return _promote(promoter)


Promoter.promote = _block  # type: ignore[method-assign]
program.SchedulerProcess = partial(SchedulerProcess, patience=20, poll_seconds=0.05)  # type: ignore[misc,assignment]

if __name__ == "__main__":
    sys.exit(program.main())
