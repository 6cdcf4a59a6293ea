"""Service for processes with actors: the parts of a worker process that its server needs. Few workers load it."""

from functools import partial
from pathlib import Path

from actors.dispatch.actor_link.peer import AllowedPeers
from actors.dispatch.actor_link.server import ActorService
from app.catalog.endpoints.actor_endpoints import register
from app.kernel.config import Settings
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
        record=partial(actor_processes.write, process.database, process.worker_id),
        wake=partial(process.inboxes.wake, EndpointType.ACTOR.queue),
        allowed=AllowedPeers.of(settings.actors_allow),
    )
