"""Services for processes with actors, without a database."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor import ActorDispatcher
from actors.dispatch.actor_link.server import ActorService
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from app.kernel.access.key_ring import Key
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Call
from app.kernel.processes.actor_processes import ActorProcess
from brokers.sharing.actor_places import ActorProcesses
from tests.contract.dispatch.dispatching import Opening


class Registrations:
    """Registrations of actors; the first one lasts until it may go on."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.is_running = self.has_overtaken = False
        self.records = list[ActorProcess]()
        self.failures = 0  # of the next records
        self.refused = dict[str, str]()
        self.closed_actors = set[str]()
        self.queries = 0  # of closed actors

    def register(self, actors: Sequence[Mapping[str, Any]], key: Key | None = None) -> RegisteredActors:
        self.has_overtaken |= self.is_running
        self.is_running = True
        self.has_begun.set()
        assert self.may_end.wait(30)
        self.is_running = False
        names = [each["name"] for each in actors]
        refused = self.refused | dict.fromkeys(self.closed_actors, "closed")
        endpoints = {name: name for name in names if name not in refused}
        return RegisteredActors(endpoints, refused, {*self.closed_actors})

    def closed(self, _actors: Sequence[Mapping[str, Any]], _key: Key) -> set[str]:
        self.queries += 1
        return {*self.closed_actors}

    def record(self, process: ActorProcess) -> None:
        if self.failures:
            self.failures -= 1
            raise UnavailableError("no database")
        self.records.append(process)


def quick_registrations() -> Registrations:
    registrations = Registrations()
    registrations.may_end.set()
    return registrations


def path_of(service: ActorService) -> Path:
    return service.directory / f"{service.worker_id}.sock"


def service_of(sockets: Path, registrations: Registrations, wake: Call = lambda: None) -> ActorService:
    return ActorService(
        sockets, "w", ActorProcesses(), registrations.register, registrations.closed, registrations.record, wake
    )


def opening(service: ActorService) -> Opening:
    return Opening(lambda network: ActorDispatcher(network._replace(actors=service)))
