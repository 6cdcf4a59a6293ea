"""Session of one process that runs actors: its places, its messages, and its connection, which may be replaced."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.dispatch.actor_link.frames import FrameError, FrameKind, encode
from actors.dispatch.actor_link.hand import Hand, HandKey
from actors.dispatch.actor_link.pace import MAX_PER_THREAD, PER_THREAD, Pace
from actors.dispatch.actor_link.peer import Peer
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from app.catalog.specs.actor import MAX_ACTOR_NAME, endpoint_name
from app.kernel.access.api_keys import Scope
from brokers.sharing.actor_places import ActorPlaces

RETURN_SECONDS = 5.0  # for a process with a broken connection to connect again
LOOK_SECONDS = 0.05  # between two looks at the process
UNSTARTED_SECONDS = 30.0  # for a thread of the process; then another process gets the message
BACKS_IN_A_ROW = 32  # messages that a process gives back, and ends none, until it rests
REST_SECONDS = 1.0
MAX_THREADS = 1_000
MAX_PID = 2**31 - 1
MAX_QUEUES = 1_000  # of one process
TOGETHER_BYTES = 65_536  # of frames in one write
MAX_UNREAD_BYTES = 16 * 1024 * 1024  # frames that wait for a process to read
AHEAD_SECONDS = 1.0  # for a thread, of a message beyond PER_THREAD, which came because the actors were quick


class Session:
    """One process, by the id that it chose; belongs to the event loop."""

    def __init__(self, session_id: str, hello: Mapping[str, Any], peer: Peer) -> None:
        self.session_id = session_id
        self.host = str(hello.get("host") or "")[:255]
        self.peer = peer
        shown = _positive(hello.get("pid"))
        self.pid = shown if shown is not None and shown <= MAX_PID else peer.pid  # as the process sees it
        self.places = ActorPlaces()
        self.actors: tuple[Mapping[str, Any], ...] = ()
        self._refused: dict[str, tuple[str, str]] = {}  # queue and reason by endpoint
        self.closed: set[str] = set()  # actors of queues that its key may not work
        self.hands: dict[HandKey, Hand] = {}
        self.transport: asyncio.Transport | None = None
        self._unwritten = bytearray()
        self.returned = asyncio.Event()
        self.is_draining = False
        self.is_forgotten = False  # it did not return in time
        self.is_registering = False
        self.registers_again = False  # a HELLO came during a registration
        self.threads = 1
        self._prefetch: int | None = None
        self._pace = Pace()
        self.heard = 0  # frames
        self.is_silent = self._is_resting = self._is_full = False
        self._given_back = 0

    def describe(self, hello: Mapping[str, Any]) -> None:
        """Apply the number of threads, a prefetch and the actors of a HELLO."""
        self.threads = min(_positive(hello.get("threads")) or 1, MAX_THREADS)
        prefetch = _positive(hello.get("prefetch"))
        self._prefetch = None if prefetch is None else min(prefetch, MAX_PER_THREAD * MAX_THREADS)
        actors = hello.get("actors")
        self.actors = tuple(each for each in actors if isinstance(each, dict)) if isinstance(actors, list) else ()
        self._count_places()

    def serve(self, found: RegisteredActors) -> None:
        """Set the endpoints of the registered actors."""
        self.closed = found.closed
        queues = {str(each.get("name")): str(each.get("queue") or "default") for each in self.actors}
        self._refused = {
            endpoint_name(actor): (queues.get(actor, ""), reason) for actor, reason in found.refused.items()
        }
        self.places.endpoints = {
            endpoint: queues[actor]
            for actor, endpoint in found.endpoints.items()
            if actor in queues and actor not in found.refused
        }

    def may_start(self, endpoint: str) -> bool:
        """Return whether an outcome of the process may start jobs of an endpoint, which belongs to some actor."""
        key = self.peer.key
        is_open = key is None or key.allows(Scope.ACTORS_WORK) or key.may_create(endpoint)
        return is_open or endpoint in self.places.endpoints

    def set_room(self, frame: Mapping[str, Any]) -> bool:
        """Apply a ROOM: the process holds at most `places` messages of a queue; return whether its record changed.

        Raises FrameError.
        """
        before = self.offered, self.refused
        queue = str(frame.get("queue"))
        if len(queue) > MAX_ACTOR_NAME:
            raise FrameError(f"`queue` has {len(queue)} characters; at most {MAX_ACTOR_NAME} are allowed")
        if queue not in self.places.by_queue and len(self.places.by_queue) >= MAX_QUEUES:
            raise FrameError(f"`queue` is the {MAX_QUEUES + 1}th of the process; at most {MAX_QUEUES} are allowed")
        self.places.by_queue = {**self.places.by_queue, queue: _positive(frame.get("places")) or 0}
        return (self.offered, self.refused) != before

    @property
    def offered(self) -> tuple[str, ...]:
        """Return the endpoints of the actors that the process runs: it may know more, and run other queues only."""
        by_queue = self.places.by_queue
        return tuple(name for name, queue in self.places.endpoints.items() if by_queue.get(queue))

    @property
    def refused(self) -> dict[str, str]:
        """Return reasons by the endpoint of each actor that the process may not run, though it runs its queue."""
        by_queue = self.places.by_queue
        return {name: reason for name, (queue, reason) in self._refused.items() if by_queue.get(queue)}

    def send(self, kind: FrameKind, **fields: Any) -> None:
        """Send a frame; nothing without a connection, which ends if the process reads too little."""
        self.write(encode(kind, **fields))

    def write(self, frames: bytes) -> None:
        """Send frames, as `send`; the frames of a turn of the loop share a write."""
        if self.transport is None:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten += frames
        if len(self._unwritten) > TOGETHER_BYTES:  # in time to note a full connection, which gets no message
            self.flush()

    def flush(self) -> None:
        """Write the frames that wait."""
        transport, frames, self._unwritten = self.transport, self._unwritten, bytearray()
        if transport is None or not frames:
            return
        transport.write(frames)
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()  # a close would wait until the process reads

    def mark_full(self, is_full: bool) -> None:
        """Note whether the connection is full; such a process gets no message until it reads."""
        self._is_full = is_full
        self._count_places()

    def take(self, hand: Hand) -> None:
        """Give a message a place; the last places are for messages in advance, which wait for a thread less long."""
        hand.is_ahead = not self._prefetch and self.places.held_count >= PER_THREAD * self.threads
        hand.unstarted_seconds = AHEAD_SECONDS if hand.is_ahead else UNSTARTED_SECONDS
        self.hands[hand.key] = hand
        self.places.take(hand.queue)

    def drop(self, hand: Hand) -> None:
        """Take back a message that no thread begins; answered by BACK, or by the STARTED that is on its way."""
        self.send(FrameKind.DROP, execution=hand.key.execution_id, attempt=hand.key.attempt)
        if hand.is_ahead:
            self._pace.slow_down()
            self._count_places()

    def leave(self, hand: Hand) -> None:
        """Free the place of a message."""
        if self.hands.get(hand.key) is hand:
            del self.hands[hand.key]
        if hand.started_at and self._pace.ended(time.monotonic() - hand.started_at):
            self._count_places()
        self.places.give_back(hand.queue)

    def end_silence(self) -> None:
        """Give the process messages again."""
        self.is_silent = False
        self._count_places()

    def falls_silent(self, heard: int) -> bool:
        """Return whether the process has sent no more frames; such a process gets no message until it sends one."""
        if self.heard != heard:
            return False
        self.is_silent = True
        self._count_places()
        return True

    def note_end(self, hand: Hand, *, is_back: bool) -> bool:
        """Note the end of a message; return whether the process has to rest, having given back many and ended none."""
        if not is_back:
            self._given_back = 0
        if not is_back or hand.is_dropped or self._is_resting or self.is_draining:
            return False
        self._given_back += 1
        self._is_resting = self._given_back >= BACKS_IN_A_ROW
        self._count_places()
        return self._is_resting

    def end_rest(self) -> None:
        """Give the process messages again."""
        self._is_resting, self._given_back = False, 0
        self._count_places()

    def started(self, key: HandKey) -> None:
        """Note the start of a message; a message that was taken from the process is aborted."""
        hand = self.hands.get(key)
        if hand is None:
            self.send(FrameKind.ABORT, execution=key.execution_id, attempt=key.attempt)
        elif not hand.started_at:
            hand.start()

    def connect(self, transport: asyncio.Transport) -> None:
        """Use a connection from now on; the end of an earlier connection may be seen only later."""
        if self.transport is not None and self.transport is not transport:
            self.disconnect()
        self.transport = transport
        self.returned.set()

    def disconnect(self) -> None:
        """Take back all messages that were not started: the process drops them, too."""
        self.transport, self._is_full, self._unwritten = None, False, bytearray()
        self.returned.clear()
        for hand in [*self.hands.values()]:
            if not hand.started_at:
                hand.come_back()

    async def wait_for_return(self) -> None:
        """Wait until the process has connected again, or has ended, or the time is over; then lose its messages."""
        until = time.monotonic() + RETURN_SECONDS
        while not self.returned.is_set() and time.monotonic() < until and self.hands and not self._has_ended():
            # The kernel reports no end of a process that is not a child.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.returned.wait()
        if self.transport is None:
            for hand in [*self.hands.values()]:
                hand.lose()

    def _has_ended(self) -> bool:
        """Return whether the process is gone; a zombie runs nothing."""
        if self.peer.pid is None:
            return False
        try:
            with contextlib.suppress(PermissionError):  # it runs, or is a zombie
                os.kill(self.peer.pid, 0)
            stat = Path(f"/proc/{self.peer.pid}/stat").read_text()
        except ProcessLookupError:
            return True
        except OSError:  # /proc may hide processes of other users, as in the unit for systemd
            return False
        return stat.rpartition(")")[2].split()[0] in {"Z", "X"}

    def _count_places(self) -> None:
        wanted = self._prefetch or self.threads * self._pace.per_thread
        is_closed = self.is_draining or self.is_silent or self._is_resting or self._is_full
        self.places.total = 0 if is_closed else wanted
        self.places.enough = PER_THREAD * self.threads

    def drain(self) -> None:
        """Give the process no further messages."""
        self.is_draining = True
        self._count_places()


def _positive(number: object) -> int | None:
    """Return a number that a process sent, if it is a whole number above zero."""
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None
