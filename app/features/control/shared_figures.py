"""Figures of a web process: read at most once in a few seconds, for all its clients."""

import threading
from collections import OrderedDict
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from flask import current_app

from app.features.control.endpoint_states import EndpointStates, endpoint_states
from app.features.control.fresh_reading import FreshReading
from app.features.control.statistics import ServiceStatistics
from app.features.rollups import rollup_slots
from app.web.services import services

EXTENSION = "task_executor_figures"
MAX_WINDOWS = 20  # the last reading is kept of each


class ServiceFigures(NamedTuple):
    """Statistics of the whole service, and the time of the database when they were read."""

    read_at: datetime
    statistics: ServiceStatistics


class SharedFigures:
    """The last readings of a process."""

    def __init__(self) -> None:
        self._service = FreshReading(_figures)
        self._windows: OrderedDict[timedelta, FreshReading[EndpointStates]] = OrderedDict()
        self._lock = threading.Lock()

    def service(self) -> ServiceFigures:
        return self._service.get()

    def endpoints(self, window: timedelta) -> EndpointStates:
        with self._lock:
            reading = self._windows.setdefault(window, FreshReading(partial(_endpoints, window)))
            self._windows.move_to_end(window)
            if len(self._windows) > MAX_WINDOWS:
                self._windows.popitem(last=False)
        return reading.get()


def shared_figures() -> SharedFigures:
    """Return the figures of the current application."""
    found: SharedFigures = current_app.extensions.setdefault(EXTENSION, SharedFigures())
    return found


def _figures() -> ServiceFigures:
    database = services().database
    statistics = ServiceStatistics.read(database, services().shards)
    return ServiceFigures(rollup_slots.marks(database).now, statistics)


def _endpoints(window: timedelta) -> EndpointStates:
    return endpoint_states(services().database, window)
