"""Figures of a web process: read at most once in a few seconds, for all its clients."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from flask import current_app

from app.features.control.endpoint_states import EndpointStates, endpoint_states
from app.features.control.fresh_reading import FreshReading
from app.features.control.statistics import ServiceStatistics
from app.features.rollups import rollup_slots
from app.web.services import services

T = TypeVar("T")
P = ParamSpec("P")

EXTENSION = "task_executor_figures"
MAX_READINGS = 40  # the latest are kept


class ServiceFigures(NamedTuple):
    """Statistics of the whole service, and the time of the database when they were read."""

    read_at: datetime
    statistics: ServiceStatistics


class SharedFigures:
    """The last readings of a process, by the function that read them and its arguments."""

    def __init__(self) -> None:
        self._readings: OrderedDict[Hashable, FreshReading[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def service(self) -> ServiceFigures:
        return self.of(_figures)

    def endpoints(self, window: timedelta) -> EndpointStates:
        return self.of(_endpoints, window)

    def of(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function reads, which depends on the time and its hashable arguments, not on the request."""
        key = (read, args, *sorted(kwargs.items()))
        with self._lock:
            reading = self._readings.setdefault(key, FreshReading(partial(read, *args, **kwargs)))
            self._readings.move_to_end(key)
            if len(self._readings) > MAX_READINGS:
                self._readings.popitem(last=False)
        found: T = reading.get()
        return found


def shared_figures() -> SharedFigures:
    """Return the figures of the current application."""
    found: SharedFigures = current_app.extensions.setdefault(EXTENSION, SharedFigures())
    return found


def forget_figures() -> None:
    """Let the next reader read all figures again, after a change that they show."""
    current_app.extensions.pop(EXTENSION, None)


def _figures() -> ServiceFigures:
    database = services().database
    statistics = ServiceStatistics.read(database, services().shards)
    return ServiceFigures(rollup_slots.marks(database).now, statistics)


def _endpoints(window: timedelta) -> EndpointStates:
    return endpoint_states(services().database, window)
