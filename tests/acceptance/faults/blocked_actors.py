"""`dramatiq tests.acceptance.faults.blocked_actors`: the worker with one of its threads made to stand still, or to die.

TEST_BLOCKED says which: "heartbeat" blocks the second renewal of the lease, "delivery" the loop at the first send;
"finalizer" dies of the first result.
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


def _conclude(*_arguments: object, **_named: object) -> set[str]:
    raise RuntimeError("a fault that nobody foresaw")


match os.environ["TEST_BLOCKED"]:
    case "heartbeat":
        worker_lease.renew = _renew_once
    case "delivery":
        loop.deliver = _deliver
    case "finalizer":
        outcomes.conclude = _conclude
