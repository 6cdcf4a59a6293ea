"""Connection of a process that runs actors: its frames, and the session to which they belong."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from actors.dispatch.actor_link.connection_bound import ConnectionBound
from actors.dispatch.actor_link.frames import PROTOCOL, FrameError, FrameKind, FrameReader, encode
from actors.dispatch.actor_link.hand import HandKey
from actors.dispatch.actor_link.peer import Peer, peer_of
from app.kernel.access.key_ring import Key

if TYPE_CHECKING:
    from actors.dispatch.actor_link.process_session import Session
    from actors.dispatch.actor_link.server import ActorServer

MAX_ACTORS = 10_000  # of one process
READ_BYTES, MAX_READS = 262_144, 16  # a Unix socket holds less
_OUTCOMES = frozenset({FrameKind.DONE, FrameKind.AGAIN, FrameKind.FAILED, FrameKind.BACK})


class ProcessConnection(asyncio.Protocol):
    """One connection of a process."""

    def __init__(self, server: "ActorServer", bound: ConnectionBound, peer: Peer | None = None) -> None:
        """Take the bound of its listener, and the peer of a verified key; a peer at a Unix socket has credentials."""
        self._server = server
        self._bound = bound
        self._peer = peer
        self._reader = FrameReader()
        self._session: Session | None = None
        self._transport: asyncio.Transport | None = None
        self._may_run = False
        self._unread: int | None = None  # a second descriptor of a Unix socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has the methods, but not the class
        self._peer = peer = self._peer or peer_of(transport)
        self._may_run = self._server.service.allowed.may_run(peer)
        if self._may_run:
            reason = self._bound.take()
            if peer.pid is not None and reason is None:
                with contextlib.suppress(OSError):  # no file is left
                    self._unread = os.dup(transport.get_extra_info("socket").fileno())
        else:
            reason = (
                f"user {peer.uid} with group {peer.gid} may not run actors: start the process as the user of the "
                "worker, or add its user or %group to TE_ACTORS_ALLOW of the worker"
            )
        if reason is not None:
            self._may_run = False
            self._bound.note_refusal("the socket" if peer.key is None else "the port", reason)
            self._refuse(reason)

    def data_received(self, data: bytes) -> None:
        if not self._may_run:
            return  # sent before the refusal arrived
        try:
            for frame in self._reader.feed(data):
                self._receive(frame)
        except FrameError as error:
            self._refuse(str(error))

    def pause_writing(self) -> None:
        """Send no further messages, but go on reading: a process that waits for its own write may read nothing."""
        self._mark_full(True)

    def resume_writing(self) -> None:
        """Send messages again."""
        self._mark_full(False)
        self._server.report_room()

    def recheck(self, key: Key) -> None:
        """Register the actors again if others of them are open to the key than before."""
        session = self._session
        if session is not None and session.transport is self._transport:
            self._server.run(self._server.recheck(session, key))

    def _mark_full(self, is_full: bool) -> None:
        session = self._session
        if session is not None and session.transport is self._transport:
            session.mark_full(is_full)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._may_run:
            self._bound.leave()
        session = self._session
        try:
            if exc is not None and session is not None and self._unread is not None:
                self._receive_rest(self._unread)
        finally:
            if self._unread is not None:
                os.close(self._unread)
            if session is not None and session.transport is self._transport:
                self._server.lost(session)

    def _receive_rest(self, descriptor: int) -> None:
        """Receive what a dead process has sent: a write to it ends the transport before its last frames are read.

        Without its STARTED, the run of a message would leave no attempt.
        """
        with contextlib.suppress(OSError, FrameError):
            for _ in range(MAX_READS):
                if not (data := os.read(descriptor, READ_BYTES)):
                    return
                for frame in self._reader.feed(data):
                    self._receive(frame)

    def _receive(self, frame: Mapping[str, Any]) -> None:
        kind, session = frame["kind"], self._session
        if session is not None:
            session.heard += 1
            if session.is_silent:
                session.end_silence()
                self._server.report_room()
        if kind == FrameKind.HELLO:
            self._hello(frame)
        elif session is None:
            raise FrameError("the first frame is HELLO")
        elif kind in _OUTCOMES:
            self._server.ended(session, frame)
        elif kind == FrameKind.STARTED:
            session.started(HandKey.of(frame))
        elif kind == FrameKind.ROOM:
            if session.set_room(frame):
                self._server.records.note(session)
            self._server.report_room()
        elif kind == FrameKind.DRAIN:
            session.drain()

    def _hello(self, frame: Mapping[str, Any]) -> None:
        if frame.get("protocol") != PROTOCOL:
            self._refuse(f"the worker speaks protocol {PROTOCOL}: install the matching task-executor-dramatiq")
            return
        if self._session is not None and session_id_of(frame) != self._session.session_id:
            self._refuse("a connection belongs to one session: connect anew for another one")
            return
        if isinstance(actors := frame.get("actors"), list) and len(actors) > MAX_ACTORS:
            self._refuse(f"`actors` has {len(actors)} actors; a process has at most {MAX_ACTORS}")
            return
        transport, peer = cast("asyncio.Transport", self._transport), cast("Peer", self._peer)
        self._session = self._server.session_of(frame, transport, peer)
        self._server.register(self._session)

    def _refuse(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.write(encode(FrameKind.REFUSED, reason=reason))
            self._transport.close()


def session_id_of(hello: Mapping[str, Any]) -> str:
    """Return the id that a process has chosen for its session."""
    return str(hello.get("session"))[:64]
