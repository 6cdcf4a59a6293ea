"""The worker: `dramatiq actors` imports this module in each of its processes.

A composition root: it reads the environment and builds the objects. No thread and no connection exists before
Dramatiq boots the worker.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

# First of all imports, because `app` puts off searches for garbage during the others.
from app.kernel.collector import spare_what_is_there  # isort: skip
import dramatiq

from actors.deliver import Deliveries
from actors.dispatch import open_dispatchers
from actors.loop import DeliveryLoop
from actors.open_files import DEFAULT_POOL_SIZE, ensure_open_files
from app.catalog import rotation
from app.catalog.crypto import SecretBox
from app.catalog.loader import Catalog
from app.feature import Feature
from app.features import FEATURES
from app.kernel import db, log
from app.kernel.config import SettingError, Settings
from app.kernel.gathered_log import GatheredLog
from app.kernel.metrics import PROCESS
from app.kernel.metrics.group import GROUP, serving, sharing
from app.kernel.threads import BackgroundThread
from app.kernel.wakeup import WakeupSender
from brokers.broker import ExecutionsBroker
from brokers.consumer import DELIVER
from brokers.inbox import PostgresSource, RedisSource, WakeupListener
from brokers.middleware import Lifecycle
from brokers.worker_process import WorkerProcess
from brokers.worker_settings import WorkerSettings
from schema.states import EndpointType

if TYPE_CHECKING:
    from actors.dispatch.actor_link.server import ActorService


def build(settings: Settings, features: Sequence[Feature] = FEATURES) -> tuple[ExecutionsBroker, Deliveries]:
    """Build the broker of a worker process, and the deliveries that its actors call."""
    database = db.connect(
        settings.database_url, pool_size=settings.db_pool_size or DEFAULT_POOL_SIZE, application_name="te-worker"
    )
    lease_database = db.connect(
        settings.database_url,
        pool_size=1,
        application_name="te-heartbeat",
        statement_timeout_seconds=max(1.0, settings.worker_timeout_seconds / 3),
    )
    box = SecretBox.from_setting(settings.secret_encryption_key) if settings.secret_encryption_key else None
    catalog = Catalog(
        database,
        box,
        config_ttl_seconds=settings.config_cache_ttl_seconds,
        secret_ttl_seconds=settings.secret_cache_ttl_seconds,
    )
    process = WorkerProcess(
        database,
        lease_database,
        _worker_settings(settings, database),
        on_revision=catalog.observe,
        values=PROCESS,
        features=features,
        hint=WakeupSender(database, settings.wakeup_redis_url).hint,
        publish=GROUP.publish if settings.worker_metrics_addr else None,
    )
    starters = {
        type_: starter
        for feature in features
        for type_, starter in feature.starters(database, process.inboxes.wake, process.outbox.submit).items()
    }
    loop = DeliveryLoop(partial(open_dispatchers, settings, starters, _actors(settings, process)))
    deliveries = Deliveries(catalog, loop, database, process)
    process.flow.on_poll(deliveries.follow)
    process.watchdog.watch("delivery loop", loop)
    process.on_drain(loop.drain)
    process.on_end(loop.stop)
    process.flow.on_poll(loop.abort_requested)
    threads = [GatheredLog(), *_spans(settings, process), loop, *_listeners(settings, process), *_metrics(settings)]

    def opened() -> None:
        rotation.warn_of_unreadable(database, box)
        spare_what_is_there()

    lifecycle = Lifecycle(process, threads, on_open=opened, finds_queues=True)
    broker = ExecutionsBroker(process, [lifecycle])
    return broker, deliveries


def _actors(settings: Settings, process: WorkerProcess) -> "ActorService | None":
    """Return the parts of the process for processes with actors; None if it listens to none."""
    if not settings.actors_listen:
        if settings.actors_tls_addr:
            raise SettingError("TE_ACTORS_TLS_ADDR needs TE_ACTORS_LISTEN, the directory of the Unix sockets")
        return None
    from actors.actor_service import actor_service  # noqa: PLC0415 - few workers need it

    return actor_service(settings, process)


def _spans(settings: Settings, process: WorkerProcess) -> list[BackgroundThread]:
    if settings.traces == "off":
        return []
    from app.kernel.tracing.exporting import Exporting  # noqa: PLC0415 - few workers need it
    from brokers.spans import WorkerSpans  # noqa: PLC0415

    exporter = Exporting("worker")
    process.finalizer.outcomes.spans = WorkerSpans(exporter, process.worker_id)
    return [exporter]


def _metrics(settings: Settings) -> list[BackgroundThread]:
    PROCESS.endpoints.most = settings.metrics_max_endpoints
    if not settings.worker_metrics_addr:
        return []
    return [*sharing("worker"), *serving(settings.worker_metrics_addr)]


def _listeners(settings: Settings, process: WorkerProcess) -> list[WakeupListener]:
    if settings.wakeup_redis_url:
        return [WakeupListener(process.inboxes, RedisSource(settings.wakeup_redis_url))]
    if process.database.is_cockroach:
        return []
    database = db.connect(settings.database_url, pool_size=1, application_name="te-listener")
    return [WakeupListener(process.inboxes, PostgresSource(database))]


def _worker_settings(settings: Settings, database: db.Database) -> WorkerSettings:
    return WorkerSettings(
        capacity=settings.worker_max_concurrent,
        poll_interval_ms=settings.worker_poll_interval_ms,
        shards=settings.shards(cockroach=database.is_cockroach),
        lease_seconds=settings.worker_timeout_seconds,
        stuck_seconds=settings.stuck_timeout_seconds,
        shutdown_timeout_seconds=settings.worker_shutdown_timeout_seconds,
        startup_timeout_seconds=settings.startup_timeout_seconds,
        connections_per_host=settings.connections_per_host,
        left_out=frozenset() if settings.actors_listen else frozenset({EndpointType.ACTOR.queue}),
        look_ahead_ms=round(settings.look_ahead_seconds * 1000),
    )


try:
    _settings = Settings.from_env(os.environ)
    log.restyle(_settings.log_level, _settings.log_format)
    ensure_open_files(_settings)
    broker, _deliveries = build(_settings)
except SettingError as error:
    sys.exit(f"worker: {error}")

dramatiq.set_broker(broker)

# One actor for all queues; the queues of the transports exist from the start.
for _queue in (endpoint_type.queue for endpoint_type in EndpointType):
    if _queue not in broker.process.settings.left_out:
        broker.declare_queue(_queue)
dramatiq.actor(actor_name=DELIVER, queue_name=EndpointType.HTTP.queue)(_deliveries.start)
