"""Service for processes with actors: the parts of a worker process that its server needs. Few workers load it."""

from functools import partial
from pathlib import Path

from actors.dispatch.actor_link.key_gate import TlsListener, certificate
from actors.dispatch.actor_link.peer import AllowedPeers
from actors.dispatch.actor_link.server import ActorService
from actors.open_files import max_actor_processes
from app.catalog.endpoints.actor_endpoints import closed_actors, register
from app.kernel.access.api_keys import WORK_PREFIX, Scope
from app.kernel.access.key_ring import Key, KeyRing
from app.kernel.config import SettingError, Settings
from app.kernel.db import Database
from app.kernel.errors import ForbiddenError
from app.kernel.processes import actor_processes
from app.queue.jobs.actor_schedules import ActorSchedules
from app.queue.jobs.following_jobs import Placing
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType


def actor_service(settings: Settings, process: WorkerProcess) -> ActorService:
    """Let a worker process listen to processes with actors, and return the parts that the server needs."""
    placing = Placing(process.settings.shards, process.settings.look_ahead_ms)
    return ActorService(
        directory=Path(settings.actors_listen),
        worker_id=process.worker_id,
        processes=process.listen_to_actors(),
        register=partial(register, process.database, schedules=ActorSchedules(process.database, placing)),
        closed=partial(closed_actors, process.database),
        record=partial(actor_processes.write, process.database, process.worker_id),
        wake=partial(process.inboxes.wake, EndpointType.ACTOR.queue),
        allowed=AllowedPeers.of(settings.actors_allow),
        max_connections=max_actor_processes(settings),
        tls=_tls_listener(settings, process.database),
    )


def _tls_listener(settings: Settings, database: Database) -> TlsListener | None:
    """Return the listener for processes on other machines; raises SettingError without a readable certificate."""
    if not settings.actors_tls_addr:
        return None
    if not settings.actors_tls_cert or not settings.actors_tls_key:
        raise SettingError("TE_ACTORS_TLS_ADDR needs TE_ACTORS_TLS_CERT and TE_ACTORS_TLS_KEY, files in PEM format")
    host, _, port = settings.actors_tls_addr.rpartition(":")
    context = certificate(Path(settings.actors_tls_cert), Path(settings.actors_tls_key))
    return TlsListener(host.strip("[]"), int(port), context, partial(working_key, KeyRing(database)))


def working_key(ring: KeyRing, presented: str) -> Key:
    """Return a key that may run actors of some queue at least; raises TaskExecutorError."""
    # As in a flood of bad keys: a key without a row costs no look-up of its own.
    key = ring.verify(presented, lambda: True)
    if not key.allows(Scope.ACTORS_WORK) and not key.queue_patterns:
        raise ForbiddenError(
            f"The API key {key.name!r} lacks the scope {Scope.ACTORS_WORK.value!r} or '{WORK_PREFIX}QUEUE': give the "
            "broker a `key` with it."
        )
    return key
