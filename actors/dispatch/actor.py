"""Actors: a message to a process of the user, which connects by itself, and its outcome."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from actors.dispatch.actor_link.frames import FrameKind, encode_frame
from actors.dispatch.actor_link.hand import Hand, HandKey, ProcessLostError
from actors.dispatch.actor_link.outcome import MAX_RESULT_BYTES, again_error, failed_error, following_jobs, result_of
from actors.dispatch.actor_link.process_session import Session
from actors.dispatch.actor_link.server import ActorServer
from actors.dispatch.actor_link.written_reports import WrittenReports
from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.network import Network
from app.catalog.specs.actor import endpoint_name, timeout_of_message
from app.kernel.formats import numbered
from app.queue.claiming.release import MIN_DEFERRAL_MS
from app.queue.executions.execution_model import DeliveryError, NotSentError

PATIENCE_SECONDS = 1.0  # for a place in a process
NO_WORKER_DEFERRAL_MS = 5_000
NO_KEY_DEFERRAL_MS = 30_000
_endpoint_of = lru_cache(1_000)(endpoint_name)


class ActorDispatcher(Dispatcher):
    """Gives messages to the processes that are connected to this worker."""

    max_text_bytes = MAX_RESULT_BYTES

    def __init__(self, network: Network) -> None:
        self._reports = WrittenReports(asyncio.get_running_loop())
        self._server = None if network.actors is None else ActorServer(network.actors)
        if self._server is not None:
            self._server.run(self._server.open())

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Give a message to a process with a free place, and wait for its outcome."""
        timeout_ms = timeout_of_message(spec)
        if self._server is None:
            reason = "this worker listens to no processes with actors: set TE_ACTORS_LISTEN"
            raise NotSentError(reason, NO_WORKER_DEFERRAL_MS, is_noted=False)
        endpoint, queue = _endpoint_of(spec["actor"]), spec["queue"]
        session = freest(self._server.sessions.values(), endpoint, queue)
        if session is None:
            session = await self._session_for(endpoint, queue, identity)
        # The present queue of the actor: the process consumes no other, and the job may have an earlier version.
        queue = session.places.endpoints[endpoint]
        hand = Hand(session, HandKey(identity.execution_id, identity.attempt), queue)
        processes = self._server.service.processes
        session.take(hand)
        processes.assigned[endpoint] += 1
        try:
            if not identity.permission.may_send():
                raise NotSentError("its claim is no longer held, or it is too late")
            session.write(encode_frame(_message(spec, identity, queue, timeout_ms)))
            return await self._outcome(hand, spec, identity, timeout_ms)
        finally:
            session.leave(hand)
            processes.assigned[endpoint] -= 1
            self._server.freed.set()

    async def _session_for(self, endpoint: str, queue: str, identity: Identity) -> Session:
        """Wait for a process with a free place."""
        server = self._server
        assert server is not None  # noqa: S101 - the caller has checked it
        until = time.monotonic() + PATIENCE_SECONDS
        while (session := freest(server.sessions.values(), endpoint, queue)) is None:
            if is_closed(server.sessions.values(), endpoint, queue):
                reason = f"no API key of the processes with its actor may run the queue {queue!r}"
                raise NotSentError(reason, NO_KEY_DEFERRAL_MS)
            left = until - time.monotonic()
            if left <= 0 or server.is_draining:
                raise NotSentError("no process with its actor was free", round(MIN_DEFERRAL_MS), is_noted=False)
            server.freed.clear()
            try:
                async with asyncio.timeout(left):
                    await server.freed.wait()
            except TimeoutError:
                continue
        identity.permission.begin()
        return session

    async def _outcome(
        self, hand: Hand, spec: Mapping[str, Any], identity: Identity, timeout_ms: int
    ) -> dict[str, Any]:
        """Wait for the start and the outcome; raises DeliveryError and NotSentError."""
        server, soft, soft_ms = self._server, None, identity.soft_limit_ms
        assert server is not None  # noqa: S101 - the caller has checked it
        if soft_ms is not None:
            soft = soft_ms / 1000, partial(identity.permission.pass_soft_limit, soft_ms)
        hand.watch(server.deadlines, timeout_ms / 1000, soft)
        if identity.history.has_lost_worker:
            hand.on_start = identity.permission.note_start
        try:
            frame = await hand.outcome
        except TimeoutError:
            hand.session.send(FrameKind.ABORT, **_named(hand))
            event = f"did not end the actor within {timeout_ms} ms"
            raise _lost("TIMEOUT", event, hand, identity, spec) from None
        except ProcessLostError as error:
            raise _lost("PROCESS_LOST", str(error), hand, identity, spec) from None
        except asyncio.CancelledError:
            if hand.has_reported:  # in the same turn of the loop: the process waits for an answer
                self._reports.add(hand, is_written=False)
            hand.session.send(FrameKind.ABORT, **_named(hand))
            if hand.started_at:
                raise
            raise NotSentError("it was stopped before its actor began") from None
        finally:
            hand.unwatch()
        return self._read(frame, hand, identity)

    def _read(self, frame: Mapping[str, Any], hand: Hand, identity: Identity) -> dict[str, Any]:
        """Return the output of a frame; raises DeliveryError, or NotSentError for a message that came back."""
        kind = frame["kind"]
        if kind == FrameKind.BACK:
            raise NotSentError("its process gave it back", is_noted=False)
        report = partial(self._reports.add, hand)
        identity.permission.conclude_with((), report)  # also if the jobs are refused
        if frame.get("then"):
            identity.permission.conclude_with(following_jobs(frame, hand.session.may_start), report)
        match kind:
            case FrameKind.AGAIN:
                raise again_error(frame)
            case FrameKind.FAILED:
                raise failed_error(frame)
        return result_of(frame)

    async def sweep(self, idle_seconds: float = 0.0) -> None:
        """Do nothing: processes close their connections."""

    def drain(self) -> None:
        """Give no process a further message."""
        if self._server is not None:
            self._server.drain()

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._reports.send()
            await self._server.close()


def freest(sessions: Iterable[Session], endpoint: str, queue: str) -> Session | None:
    """Return the connected process with the most free places; None if all are full.

    The queue is of the message: the actor may have had another queue when the process registered it with its key.
    """
    found, most = None, 0
    for each in sessions:
        places = each.places
        if each.transport is None or places.total - places.held_count <= most:  # each message asks all: without a call
            continue
        if (free := places.free(endpoint)) > most and each.peer.may_work(queue):
            found, most = each, free
    return found


def is_closed(sessions: Iterable[Session], endpoint: str, queue: str) -> bool:
    """Return whether there are processes with the actor, and none may run the queue."""
    serving = [each for each in sessions if each.transport is not None and endpoint in each.places.endpoints]
    return bool(serving) and not any(each.peer.may_work(queue) for each in serving)


def _message(spec: Mapping[str, Any], identity: Identity, queue: str, timeout_ms: int) -> dict[str, Any]:
    last = identity.history.last_error
    return {
        "kind": FrameKind.MESSAGE,
        "execution": identity.execution_id,
        "attempt": identity.attempt,
        "actor": spec["actor"],
        "queue": queue,
        "input": spec["arguments"],
        "last_error": {"options": last.get("options"), "traceback": last.get("traceback")},
        "timestamp": round(identity.scheduled_at.timestamp() * 1000),
        "timeout_ms": timeout_ms,
        "traceparent": identity.traceparent,
    }


def _named(hand: Hand) -> dict[str, Any]:
    return {"execution": hand.key.execution_id, "attempt": hand.key.attempt}


def _lost(type_: str, event: str, hand: Hand, identity: Identity, spec: Mapping[str, Any]) -> DeliveryError:
    """Return the error of an attempt without an outcome: the last of `max_lost` is final."""
    lost, message = identity.history.lost + 1, f"process {hand.session.pid} on {hand.session.host} {event}"
    if lost < spec["max_lost"]:
        return DeliveryError(type_, message, may_have_been_delivered=True, again_ms=0)
    message += f"; {numbered(lost, 'attempt')} without an outcome, and max_lost allows no more"
    return DeliveryError("WORKER_LOST", message, permanent=True, may_have_been_delivered=True)
