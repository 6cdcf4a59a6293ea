"""Server of a worker process for the processes that run actors: a Unix socket of its own, and a port with TLS."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from actors.dispatch.actor_link.connection_bound import ConnectionBound
from actors.dispatch.actor_link.frames import PROTOCOL, FrameError, FrameKind
from actors.dispatch.actor_link.hand import HandKey
from actors.dispatch.actor_link.hand_deadlines import HandDeadlines
from actors.dispatch.actor_link.key_gate import TlsListener
from actors.dispatch.actor_link.peer import NO_OTHERS, AllowedPeers, Peer
from actors.dispatch.actor_link.process_connection import ProcessConnection, session_id_of
from actors.dispatch.actor_link.process_records import ProcessRecords, RecordProcess
from actors.dispatch.actor_link.process_session import REST_SECONDS, Session
from actors.dispatch.actor_link.socket_files import SUFFIX, make_directory, remove_left_sockets
from actors.dispatch.actor_link.tls_port import TlsPort
from actors.open_files import MAX_ACTOR_PROCESSES
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import UnavailableError
from app.kernel.formats import numbered
from app.kernel.function_types import Call, Run
from brokers.sharing.actor_places import ActorProcesses

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0  # between two registrations while the database does not answer, and before the second socket
MAX_RETRY_SECONDS = 30.0
SHOWN_REFUSALS = 3  # of one process
MAX_UNACCEPTED = 4096  # connections; the kernel refuses more at once, and all processes connect at the worker's start


@dataclass(frozen=True, slots=True)
class ActorService:
    """Parts of the worker process that the server needs; the functions block, so they run on threads."""

    directory: Path
    worker_id: str
    processes: ActorProcesses
    register: Callable[[Sequence[Mapping[str, Any]], Key | None], RegisteredActors]
    """Registers actors as endpoints, for a process with a key or a user of this host; raises UnavailableError."""
    closed: Callable[[Sequence[Mapping[str, Any]], Key], set[str]]
    """Returns the actors of queues that a key may not work now; raises UnavailableError."""
    record: RecordProcess
    wake: Call
    """Lets the consumers claim: there are more places."""
    allowed: AllowedPeers = NO_OTHERS
    tls: TlsListener | None = None
    """For processes on other machines; None: the worker listens on the Unix socket only."""
    max_connections: int = MAX_ACTOR_PROCESSES
    """At each listener."""


class ActorServer:
    """Accepts processes and keeps their sessions; belongs to the event loop."""

    def __init__(self, service: ActorService) -> None:
        self.service = service
        self.sessions: dict[str, Session] = {}
        self.deadlines = HandDeadlines()
        self.records = ProcessRecords(service.record, self.run)
        self._server: asyncio.AbstractServer | None = None
        self._port: TlsPort | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._path = service.directory / f"{service.worker_id}{SUFFIX}"
        self.is_draining = False
        self._is_away = False  # the database, at the latest registration
        self.freed = asyncio.Event()

    async def open(self) -> None:
        """Listen; tries again while a socket cannot be created."""
        await self._open_at(str(self._path), self._open_socket)
        if (tls := self.service.tls) is not None:
            await self._open_at(f"{tls.host}:{tls.port}", partial(self._open_port, tls))

    async def _open_at(self, place: str, listen: Run[Awaitable[None]]) -> None:
        rest = RETRY_SECONDS
        while True:
            try:
                await listen()
                break
            except OSError as error:
                log.warning("cannot listen for processes with actors at %s: %s; retrying in %.0f s", place, error, rest)
                await asyncio.sleep(rest)
                rest = min(2 * rest, MAX_RETRY_SECONDS)
        log.info("listening for processes with actors at %s", place)

    async def _open_socket(self) -> None:
        is_shared = self.service.allowed.are_others
        make_directory(self.service.directory, is_shared=is_shared)
        remove_left_sockets(self.service.directory)
        bound = ConnectionBound(self.service.max_connections)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: ProcessConnection(self, bound), path=str(self._path), backlog=MAX_UNACCEPTED
        )
        self._path.chmod(0o666 if is_shared else 0o600)

    async def _open_port(self, tls: TlsListener) -> None:
        port = TlsPort(self, tls)
        await port.open(MAX_UNACCEPTED)
        self._port = port
        if self.is_draining:
            port.close()

    async def close(self) -> None:
        """Close the sockets and all connections."""
        if self._port is not None:
            self._port.close()
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self._path.unlink()
        for session in self.sessions.values():
            if session.transport is not None:
                session.flush()
                session.transport.close()

    def drain(self) -> None:
        """Let processes look for another worker; their messages go on here."""
        self.is_draining = True
        if self._port is not None:  # its address may be the next worker's, too
            self._port.close()
        for session in self.sessions.values():
            session.drain()
            session.send(FrameKind.DRAIN)

    def run(self, work: Any) -> None:
        """Run a coroutine of the server, and keep it from being collected."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def session_of(self, hello: Mapping[str, Any], transport: asyncio.Transport, peer: Peer) -> Session:
        """Return the session of a HELLO, with its new connection; raises FrameError."""
        session_id = session_id_of(hello)
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = Session(session_id, hello, peer)
        elif not session.peer.is_owner_like(peer):
            raise FrameError("the session belongs to another user or key: choose another id")
        session.connect(transport)
        if self.is_draining:
            session.drain()
        session.describe(hello)
        return session

    def register(self, session: Session) -> None:
        """Register the actors of a process, and let it work; one registration of a process follows the other."""
        if session.is_registering:
            session.registers_again = True
        else:
            session.is_registering = True
            self.run(self._register(session))

    async def recheck(self, session: Session, key: Key) -> None:
        """Register the actors of a process again if its key has other scopes, or an actor another queue."""
        is_changed = session.peer.key is None or key.scopes != session.peer.key.scopes
        session.peer = replace(session.peer, key=key)
        with contextlib.suppress(UnavailableError):  # the next recheck repeats it
            is_changed |= session.closed != await self._closed_to(key, session.actors)
        if is_changed and session.transport is not None and not session.is_registering:
            self.register(session)

    async def _closed_to(self, key: Key, actors: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the actors of queues that a key may not work; a key of all queues costs no query."""
        return set() if key.allows(Scope.ACTORS_WORK) else await asyncio.to_thread(self.service.closed, actors, key)

    async def _register(self, session: Session) -> None:
        try:
            found = await self._registered(session)
        finally:
            session.is_registering = False
        if found is not None and session.transport is not None:
            self._welcome(session, found)

    async def _registered(self, session: Session) -> RegisteredActors | None:
        """Return the endpoints of the actors of the latest HELLO; None if the process leaves before."""
        while session.transport is not None:
            session.registers_again = False
            try:
                found = await asyncio.to_thread(self.service.register, session.actors, session.peer.key)
            except UnavailableError as error:
                if not self._is_away:
                    log.warning("cannot register the actors of process %s: %s; retrying", session.pid, error.message)
                self._is_away = True
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._is_away:
                self._is_away = False
                log.warning("registered the actors of process %s: the database answers again", session.pid)
            if not session.registers_again:
                return found
        return None

    def _welcome(self, session: Session, found: RegisteredActors) -> None:
        service = self.service
        session.serve(found)
        service.processes.add(session.places)
        self.records.note(session)
        if refused := [f"{actor}: {reason}" for actor, reason in found.refused.items()]:
            count, shown = numbered(len(refused), "actor"), "; ".join(refused[:SHOWN_REFUSALS])
            log.warning("no endpoint for %s of process %s: %s", count, session.pid, shown)
        session.send(
            FrameKind.WELCOME,
            protocol=PROTOCOL,
            worker=service.worker_id,
            endpoints=found.endpoints,
            refused=found.refused,
            sessions=len(self.sessions),
        )
        if self.is_draining:  # `drain` has told the processes that were connected then
            session.send(FrameKind.DRAIN)
        self.report_room()

    def report_room(self) -> None:
        """Let waiting deliveries and consumers look for places again."""
        self.freed.set()
        self.service.wake()

    def ended(self, session: Session, frame: Mapping[str, Any]) -> None:
        """Pass on an outcome; the outcome of an attempt that this worker does not hold changes nothing."""
        key = HandKey.of(frame)
        hand = session.hands.get(key)
        if hand is not None and hand.end(frame):
            if session.note_end(hand, is_back=frame["kind"] == FrameKind.BACK):
                log.warning("process %s gives back all messages and ends none; it rests", session.pid)
                self.run(self._rest(session))
            return
        if frame["kind"] != FrameKind.BACK:
            log.warning(
                "late or repeated outcome %s of execution %s, attempt %s: it changes nothing",
                frame["kind"],
                *key,
            )
            session.send(FrameKind.WRITTEN, execution=key.execution_id, attempt=key.attempt, is_written=False)

    async def _rest(self, session: Session) -> None:
        await asyncio.sleep(REST_SECONDS)
        session.end_rest()
        self.report_room()

    def lost(self, session: Session) -> None:
        """Handle a broken connection."""
        session.disconnect()
        self.service.processes.remove(session.places)
        self.run(self._forget(session))

    async def _forget(self, session: Session) -> None:
        await session.wait_for_return()
        if session.transport is None and self.sessions.get(session.session_id) is session:
            del self.sessions[session.session_id]
            session.is_forgotten = True
            self.records.note(session)
