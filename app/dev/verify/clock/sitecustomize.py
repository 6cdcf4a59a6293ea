"""Shift the wall clock of this interpreter, before any module can refer to it.

The monotonic clock stays right, as on a machine with a wrong time of day. This module imports no module of the project.
"""

import datetime as dt
import os
import time
from typing import Any

_AHEAD = float(os.environ.get("VERIFY_CLOCK_AHEAD_SECONDS", "0"))
_real_time, _real_time_ns = time.time, time.time_ns
_RealDatetime = dt.datetime
_DELTA = dt.timedelta(seconds=_AHEAD)


class _Kind(type):
    """Treats every datetime as an instance of the shifted class, which has no instances of its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealDatetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _RealDatetime)


class _Shifted(_RealDatetime, metaclass=_Kind):
    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return _RealDatetime(*arguments, **named)

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _RealDatetime.now(tz) + _DELTA

    @classmethod
    def today(cls) -> Any:
        return _RealDatetime.today() + _DELTA

    @classmethod
    def utcnow(cls) -> Any:
        return _RealDatetime.now(dt.UTC).replace(tzinfo=None) + _DELTA


if _AHEAD:
    time.time = lambda: _real_time() + _AHEAD
    time.time_ns = lambda: _real_time_ns() + round(_AHEAD * 1e9)
    dt.datetime = _Shifted  # type: ignore[misc]
