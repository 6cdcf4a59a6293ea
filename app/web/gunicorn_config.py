"""gunicorn's configuration: `gunicorn --config python:app.web.gunicorn_config 'app:create_app()'`.

A composition root: it reads the environment when gunicorn imports it, in the master and nowhere else.
"""

import logging
import os
import resource
import sys
from pathlib import Path
from typing import Any

import gunicorn.glogging

from app.catalog import rotation, routing
from app.catalog.crypto import SecretBox
from app.catalog.routing import Route
from app.kernel import db, log
from app.kernel.collector import spare_what_is_there
from app.kernel.config import SettingError, Settings
from app.kernel.db import Database, startup
from app.kernel.errors import UnavailableError
from app.kernel.gathered_log import GatheredLog
from app.kernel.metrics import PROCESS
from app.kernel.metrics.group import sharing
from app.kernel.metrics.series import REQUESTS_WAITING, SCHEDULED, STREAMS_OPEN, WAITING_PLACES
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.kernel.processes.region import REGION
from app.kernel.threads import BackgroundThread
from app.queue.jobs import enqueue_settings
from app.web.http.request_log import begin_counting
from app.web.server import shedding
from app.web.services import EXTENSION, POOL_SIZE
from schema.states import Trigger


def _settings() -> tuple[Settings, SecretBox | None]:
    try:
        settings = Settings.from_env(os.environ)
        key = settings.secret_encryption_key
        return settings, SecretBox.from_setting(key) if key else None
    except SettingError as error:
        sys.exit(f"task-executor web: {error}")


def _raise_open_files(connections: int) -> int:
    """Raise the soft limit of open files for `connections`; return the number that the hard limit allows."""
    others = 128 + (_SETTINGS.db_pool_size or POOL_SIZE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < connections + others:
        soft = connections + others if hard == resource.RLIM_INFINITY else min(connections + others, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return soft - others
    return connections


_SETTINGS, _BOX = _settings()

bind = _SETTINGS.listen_addr
worker_class = "app.web.server.gunicorn_worker.Worker"
workers = _SETTINGS.web_workers
threads = _SETTINGS.web_threads
# Queued requests are added to the limit of connections, so that health checks are always accepted.
_IN_LINE = _SETTINGS.web_queue or shedding.QUEUED_PER_THREAD * _SETTINGS.web_threads
worker_connections = _raise_open_files(1000 + _IN_LINE + _SETTINGS.web_threads + _SETTINGS.web_waiting)
keepalive = 15
graceful_timeout = 30
accesslog = None  # the application logs each request, with its ids
limit_request_line = 8190
forwarder_headers = ""  # otherwise a SCRIPT_NAME header from this machine or a proxy on it changes the path
proc_name = "te-web"
# The application is built once, before the fork: its workers share the memory and start at once. It connects later.
preload_app = True
control_socket_disable = True  # otherwise gunicorn opens an administrative socket in the home directory
if Path("/dev/shm").is_dir():  # noqa: S108 - the heartbeat file must not wait for a disk
    worker_tmp_dir = "/dev/shm"  # noqa: S108


class _Logger(gunicorn.glogging.Logger):  # type: ignore[misc] # gunicorn ships no types
    """Logger that formats gunicorn's lines like the application's."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        log.configure(_SETTINGS.log_level, _SETTINGS.log_format)
        self.error_log.handlers.clear()
        self.error_log.setLevel(logging.NOTSET)
        self.error_log.propagate = True


logger_class = _Logger


def on_starting(_server: Any) -> None:
    """Wait for the database before any worker starts; exits with one line if it stays unreachable."""
    database = db.connect(_SETTINGS.database_url, pool_size=1, application_name="te-web")
    try:
        startup.wait_until_ready(database, _SETTINGS.startup_timeout_seconds, check=_adopt_settings)
    except UnavailableError as error:
        sys.exit(f"task-executor web: {error.explained}")
    finally:
        # Workers must not inherit connections.
        database.close()
    spare_what_is_there()  # a collection in a worker would copy the pages that it shares with the others


def _adopt_settings(database: Database) -> None:
    """Check the database and write settings that other processes read; repeated until the database can be reached."""
    startup.check_ready(database)
    rotation.warn_of_unreadable(database, _BOX)
    routing.adopt(database, [Route(*pair) for pair in _SETTINGS.routes])
    look_ahead_ms = round(_SETTINGS.look_ahead_seconds * 1000)
    shards = _SETTINGS.shards(cockroach=database.is_cockroach)
    enqueue_settings.adopt(
        database,
        shards=shards,
        look_ahead_ms=look_ahead_ms,
        max_inline_endpoints=_SETTINGS.max_inline_endpoints,
        stuck_timeout_ms=round(_SETTINGS.stuck_timeout_seconds * 1000),
    )


def _of_services(application: Any) -> list[BackgroundThread]:
    """Begin the counters of the routes, and return the background threads; none for another WSGI application."""
    services = getattr(application, "extensions", {}).get(EXTENSION)
    if services is None:
        return []
    begin_counting(application)
    return [*services.exporting, HealthThread(services.database, Component(REGION, ProcessKind.WEB))]


def post_worker_init(worker: Any) -> None:
    """Prepare a worker that has loaded the application, before it serves."""
    worker.patience_seconds = _SETTINGS.request_timeout_seconds / 4
    # The configured queue, unless the hard limit of open files leaves too few connections.
    worker.max_queued = min(_IN_LINE, max(worker_connections - _SETTINGS.web_waiting - 500, worker_connections // 4))
    # Kept connections take at most half of all connections.
    most = min(_SETTINGS.web_waiting, worker_connections // 2)
    of_key = _SETTINGS.web_waiting_per_key
    worker.set_slots(most, (most + 1) // 2 if of_key is None else of_key)
    PROCESS.read(REQUESTS_WAITING, worker.waiting)
    PROCESS.read(STREAMS_OPEN, worker.streaming)
    PROCESS.set(WAITING_PLACES, most)
    PROCESS.endpoints.most = _SETTINGS.metrics_max_endpoints
    PROCESS.begin(SCHEDULED, Trigger)
    worker.background = [GatheredLog(), *sharing("web"), *_of_services(worker.app.wsgi())]
    for thread in worker.background:
        thread.start()
    spare_what_is_there()  # so that collections scan only objects of requests


def worker_exit(_server: Any, worker: Any) -> None:
    """Stop the background threads, which report the worker's end and share its counters."""
    for thread in reversed(getattr(worker, "background", ())):
        thread.stop()


def child_exit(_server: Any, worker: Any) -> None:
    """Forget the load of a worker that has ended, in the master."""
    worker.loads.leave(worker.place)
