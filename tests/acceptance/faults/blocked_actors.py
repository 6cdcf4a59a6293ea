"""A worker with one blocked or dying thread: `dramatiq tests.acceptance.faults.blocked_actors`.

TEST_BLOCKED selects the thread. "heartbeat" blocks at the second renewal of the lease, "delivery" blocks the event loop
at the first delivery, "finalizer" dies at the first result.
"""

import os
import time
from typing import Any

from actors import broker, loop
from app.kernel.processes import worker_lease
from brokers import outcomes

__all__ = ["broker"]

_renew = worker_lease.renew
_renewals: list[float] = []


def _block() -> None:
    while True:
        time.sleep(3600)


def _renew_once(*arguments: Any, **named: Any) -> bool:
    _renewals.append(time.monotonic())
    if len(_renewals) > 1:
        _block()
    return _renew(*arguments, **named)


async def _deliver(*_arguments: object) -> None:
    _block()


def _complete(*_arguments: object, **_named: object) -> set[str]:
    raise RuntimeError("an unexpected fault")


match os.environ["TEST_BLOCKED"]:
    case "heartbeat":
        worker_lease.renew = _renew_once
    case "delivery":
        loop.deliver = _deliver
    case "finalizer":
        outcomes.complete = _complete
