"""Stand-ins in the processes of Dramatiq's tests: for the brokers that their modules name, and for pika.

Python imports this module at its start, also in the processes that the tests start with the command `dramatiq`.
"""

import sys
from types import ModuleType
from typing import Any

import dramatiq.brokers.redis
import dramatiq.brokers.stub
from suite_broker import SuiteBroker


class _Missing(Exception):  # noqa: N818 - stands for any class of pika
    """A class of pika, which no test reaches that runs here."""


class _Pika(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return _Missing


class RedisBroker(SuiteBroker):
    """Broker without the parts of StubBroker."""

    def __init__(self, **options: Any) -> None:
        super().__init__(fail_fast_default=False, **options)


pika = sys.modules["pika"] = _Pika("pika")
pika.exceptions = sys.modules["pika.exceptions"] = _Pika("pika.exceptions")
dramatiq.brokers.redis.RedisBroker = RedisBroker  # type: ignore[misc,assignment]
dramatiq.brokers.stub.StubBroker = SuiteBroker  # type: ignore[misc,assignment]
