"""`python -m tests.acceptance.faults.blocked_scheduler`: the scheduler with a chore that stands still."""

import sys
import threading
from itertools import count

from app.scheduler import __main__ as program
from app.scheduler import scheduler_process
from app.scheduler.chore import Counts
from app.scheduler.chore_heartbeats import Signs
from app.scheduler.promoter import Promoter

_promote, _runs = Promoter.promote, count(1)


def _block(promoter: Promoter) -> Counts:
    if next(_runs) > 2:
        threading.Event().wait()
    return _promote(promoter)


class _Impatient(Signs):
    def __init__(self) -> None:
        super().__init__(patience=20)


Promoter.promote = _block  # type: ignore[method-assign]
scheduler_process.Signs = _Impatient  # type: ignore[misc]
scheduler_process.LOOK_SECONDS = 0.05

if __name__ == "__main__":
    sys.exit(program.main())
