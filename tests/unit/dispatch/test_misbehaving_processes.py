"""Processes that are stopped, give all messages back, lie about threads, or do not read."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import actor as actor_dispatch
from actors.dispatch.actor import ActorDispatcher
from actors.dispatch.actor_link import connection_bound, hand, pace, process_connection, process_session
from actors.dispatch.actor_link.connection_bound import ConnectionBound
from actors.dispatch.actor_link.frames import MAX_FRAME_BYTES, FrameKind, FrameReader, encode
from actors.dispatch.actor_link.server import ActorService
from actors.dispatch.base import History, Unconditional
from actors.open_files import MAX_ACTOR_PROCESSES
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.contract.dispatch.dispatching import identity, run
from tests.unit.dispatch.actor_services import opening, path_of, quick_registrations, service_of
from tests.waiting import eventually

SPEC = {"actor": "mail", "queue": "default", "arguments": {}, "timeout_ms": 30_000, "max_lost": 3}
MIB = 1024 * 1024
ROOM = encode(FrameKind.ROOM, queue="default", places=1_000)


class Process:
    """Process at a socket that follows the orders of a test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameReader()
        self._seen = list[Mapping[str, Any]]()

    def tell(self, kind: FrameKind, about: Mapping[str, Any] | None = None, **fields: Any) -> None:
        named = {} if about is None else {"execution": about["execution"], "attempt": about["attempt"]}
        self.writer.write(encode(kind, **named, **fields))

    async def next(self, kind: FrameKind) -> Mapping[str, Any]:
        """Return the next frame, of this kind."""
        async with asyncio.timeout(30):
            while not self._seen:
                self._seen += self._frames.feed(await self.reader.read(65_536))
        frame = self._seen.pop(0)
        assert frame["kind"] == kind
        return frame


@asynccontextmanager
async def process_at(service: ActorService, session: str = "s", **about: Any) -> AsyncIterator[Process]:
    """Connect a process with the actor `mail` and places for many messages."""
    await asyncio.to_thread(eventually, path_of(service).is_socket)
    reader, writer = await asyncio.open_unix_connection(path_of(service))
    process = Process(reader, writer)
    process.tell(FrameKind.HELLO, protocol=1, session=session, actors=[{"name": "mail"}], **about)
    writer.write(ROOM)
    try:
        yield process
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def test_other_process_gets_the_message_of_a_stopped_process(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_session, "UNSTARTED_SECONDS", 0.01)
    monkeypatch.setattr(hand, "ANSWER_SECONDS", 0.05)
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service, "stopped") as stopped, process_at(service, "other") as other:
            await stopped.next(FrameKind.WELCOME)
            await other.next(FrameKind.WELCOME)
            places = service.processes.serving("mail")[0]
            with pytest.raises(NotSentError, match="gave it back"):
                async with asyncio.timeout(30):
                    await dispatcher.send(SPEC, identity())
            message = await stopped.next(FrameKind.MESSAGE)
            await stopped.next(FrameKind.DROP)
            assert places.total == 0
            again = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=2)))
            other.tell(FrameKind.DONE, await other.next(FrameKind.MESSAGE), result=1)
            assert await again == {"body": 1}
            stopped.tell(FrameKind.STARTED, message)  # begun before the DROP was read
            assert (await stopped.next(FrameKind.ABORT))["attempt"] == message["attempt"]
            assert places.total == pace.PER_THREAD

    run(opening(service), main)


def test_message_without_an_answer_of_a_sending_process_ends_with_the_time_limit(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may have begun the message."""
    monkeypatch.setattr(process_session, "UNSTARTED_SECONDS", 0.01)
    monkeypatch.setattr(hand, "ANSWER_SECONDS", 0.2)
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            sending = asyncio.ensure_future(dispatcher.send(SPEC | {"timeout_ms": 300}, identity()))
            await process.next(FrameKind.MESSAGE)
            await process.next(FrameKind.DROP)
            process.tell(FrameKind.ROOM, queue="default", places=1_000)
            with pytest.raises(DeliveryError, match="within 300 ms"):
                async with asyncio.timeout(30):
                    await sending
            await process.next(FrameKind.ABORT)

    run(opening(service), main)


def test_process_that_gives_back_everything_rests(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_session, "BACKS_IN_A_ROW", 3)
    woken = asyncio.Event()
    service = service_of(sockets, quick_registrations(), woken.set)

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            places = service.processes.serving("mail")[0]
            for number in (1, 2, 3):
                assert places.total == pace.PER_THREAD
                sending = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=number)))
                process.tell(FrameKind.BACK, await process.next(FrameKind.MESSAGE))
                with pytest.raises(NotSentError):
                    await sending
            assert places.total == 0
            woken.clear()
            async with asyncio.timeout(30):
                await woken.wait()
            assert places.total == pace.PER_THREAD
            for number in (4, 5, 6, 7):
                back = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=number)))
                done = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=number + 4)))
                process.tell(FrameKind.BACK, await process.next(FrameKind.MESSAGE))
                process.tell(FrameKind.DONE, await process.next(FrameKind.MESSAGE), result=1)
                with pytest.raises(NotSentError):
                    await back
                assert await done == {"body": 1}
                assert places.total == pace.PER_THREAD

    run(opening(service), main)


def test_process_that_stops_gives_all_messages_back_without_a_rest(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_session, "BACKS_IN_A_ROW", 2)
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            sending = [asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=number))) for number in (1, 2)]
            messages = [await process.next(FrameKind.MESSAGE) for _ in sending]
            process.tell(FrameKind.DRAIN)
            for message in messages:
                process.tell(FrameKind.BACK, message)
            for each in sending:
                with pytest.raises(NotSentError, match="gave it back"):
                    await each
            assert service.processes.serving("mail")[0].total == 0

    run(opening(service), main)
    assert "it rests" not in caplog.text


class Noting(Unconditional):
    """Permission that counts the starts that are to be recorded."""

    def __init__(self) -> None:
        self.starts = 0

    def note_start(self) -> None:
        self.starts += 1


@pytest.mark.parametrize("has_lost_worker", [True, False])
def test_start_is_recorded_after_a_loss_of_the_worker_only(sockets: Path, has_lost_worker: bool) -> None:
    service, noting = service_of(sockets, quick_registrations()), Noting()
    about = identity()._replace(permission=noting, history=History(has_lost_worker=has_lost_worker))

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            sending = asyncio.ensure_future(dispatcher.send(SPEC, about))
            message = await process.next(FrameKind.MESSAGE)
            assert noting.starts == 0
            process.tell(FrameKind.STARTED, message)
            process.tell(FrameKind.STARTED, message)
            process.tell(FrameKind.DONE, message, result=1)
            assert await sending == {"body": 1}
        assert noting.starts == has_lost_worker

    run(opening(service), main)


def test_message_that_comes_back_after_its_start_is_lost(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its actor may have had an effect; a process that only claims to start rests, too."""
    monkeypatch.setattr(process_session, "BACKS_IN_A_ROW", 3)
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            for number in (1, 2, 3):
                sending = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=number)))
                message = await process.next(FrameKind.MESSAGE)
                process.tell(FrameKind.STARTED, message)
                process.tell(FrameKind.BACK, message)
                with pytest.raises(DeliveryError, match="gave it back after its start") as lost:
                    await sending
                assert lost.value.type == "PROCESS_LOST"
            assert service.processes.serving("mail")[0].total == 0

    run(opening(service), main)


def test_outcome_that_arrives_together_with_an_abort_is_answered(sockets: Path) -> None:
    """Or its process would wait for the answer at its end."""
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            sending = asyncio.ensure_future(dispatcher.send(SPEC, identity()))
            message = await process.next(FrameKind.MESSAGE)
            (session,) = dispatcher._server.sessions.values()  # type: ignore[union-attr] # noqa: SLF001
            (held,) = session.hands.values()
            held.start()
            held.end({"kind": "DONE", "result": 1})
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            seen = {(await process.next(kind))["kind"] for kind in (FrameKind.ABORT, FrameKind.WRITTEN)}
            assert message["attempt"] == 1
            assert seen == {"ABORT", "WRITTEN"}

    run(opening(service), main)


def test_long_texts_of_a_process_are_refused_or_left_out(sockets: Path) -> None:
    """The log and the errors of attempts repeat them."""
    registrations = quick_registrations()
    service = service_of(sockets, registrations)

    async def main(_: ActorDispatcher) -> None:
        async with process_at(service, pid="4" * 1000) as process:
            await process.next(FrameKind.WELCOME)
            await asyncio.to_thread(eventually, lambda: registrations.records)
            process.tell(FrameKind.DONE, {"execution": "x" * 65, "attempt": 1})
            assert "at most 64 characters" in (await process.next(FrameKind.REFUSED))["reason"]

    run(opening(service), main)
    assert {record.pid for record in registrations.records} == {os.getpid()}


def test_process_has_no_more_threads_queues_and_actors_than_a_process_can_have(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(sockets, quick_registrations())

    async def main(_: ActorDispatcher) -> None:
        async with process_at(service, threads=10**9) as process:
            await process.next(FrameKind.WELCOME)
            places = service.processes.serving("mail")[0]
            assert places.total == process_session.MAX_THREADS * pace.PER_THREAD
            process.tell(FrameKind.HELLO, protocol=1, session="s", actors=[{"name": "mail"}], threads=2, prefetch=10**9)
            await process.next(FrameKind.WELCOME)
            assert places.total == process_session.MAX_THREADS * pace.MAX_PER_THREAD
            for number in range(process_session.MAX_QUEUES):
                process.tell(FrameKind.ROOM, queue=f"q{number}", places=1)
            assert "at most 1000 are allowed" in (await process.next(FrameKind.REFUSED))["reason"]
        async with process_at(service, "long") as process:
            await process.next(FrameKind.WELCOME)
            process.tell(FrameKind.ROOM, queue="x" * 256, places=1)
            assert "at most 255 are allowed" in (await process.next(FrameKind.REFUSED))["reason"]
        monkeypatch.setattr(process_connection, "MAX_ACTORS", 0)
        async with process_at(service, "other") as process:
            assert "at most 0" in (await process.next(FrameKind.REFUSED))["reason"]

    run(opening(service), main)


@pytest.mark.parametrize("bound", [1, MAX_ACTOR_PROCESSES])
def test_advice_about_the_bound_is_a_limit_of_files_only_if_it_helps(bound: int) -> None:
    connections = ConnectionBound(bound)
    assert {connections.take() for _ in range(bound)} == {None}
    reason = connections.take() or ""
    assert "start more workers" in reason
    assert ("ulimit -n" in reason) == (bound == 1)


def test_process_beyond_the_bound_is_refused_until_another_leaves(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_bound, "LOG_SECONDS", 600.0)
    service = replace(service_of(sockets, quick_registrations()), max_connections=1)

    async def main(_: ActorDispatcher) -> None:
        async with process_at(service, "first") as first:
            await first.next(FrameKind.WELCOME)
            for _ in range(3):
                async with process_at(service, "second") as second:
                    reason = (await second.next(FrameKind.REFUSED))["reason"]
            assert "raise its limit of open files" in reason
        await asyncio.to_thread(eventually, lambda: not service.processes.serving("mail"))
        async with process_at(service, "second") as second:
            await second.next(FrameKind.WELCOME)

    run(opening(service), main)
    assert caplog.text.count("refusing a process at the socket") == 1


def test_refusals_of_one_reason_are_logged_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_bound, "LOG_SECONDS", 0.0)
    bound = ConnectionBound(1)
    for reason in ("a", "a", "b", "b", "a", "b"):
        bound.note_refusal("the port", reason)
    assert [record.getMessage()[-1] for record in caplog.records] == ["a", "b"]


def test_process_with_a_result_beyond_the_bound_of_frames_keeps_its_connection(sockets: Path) -> None:
    """Earlier actor kits send such an outcome, and would repeat it for ever after a refusal."""
    service = service_of(sockets, quick_registrations())

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            for attempt, size, found in ((1, MAX_FRAME_BYTES, "RESULT_TOO_LARGE"), (2, 1, None)):
                sending = asyncio.ensure_future(dispatcher.send(SPEC, identity(attempt=attempt)))
                process.tell(FrameKind.DONE, await process.next(FrameKind.MESSAGE), result="x" * size)
                if found is None:
                    assert await sending == {"body": "x"}
                else:
                    with pytest.raises(DeliveryError) as failed:
                        await asyncio.wait_for(sending, 30)
                    assert (failed.value.type, failed.value.permanent) == (found, True)

    run(opening(service), main)


def test_process_that_does_not_read_gets_no_further_message_until_it_does(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_dispatch, "PATIENCE_SECONDS", 0.0)
    service = service_of(sockets, quick_registrations())
    spec = {**SPEC, "arguments": {"text": "x" * MIB}}

    async def main(dispatcher: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            places = service.processes.serving("mail")[0]
            first = asyncio.ensure_future(dispatcher.send(spec, identity()))
            await asyncio.to_thread(eventually, lambda: places.free("mail") <= 0)
            with pytest.raises(NotSentError, match="no process"):
                await asyncio.wait_for(dispatcher.send(spec, identity(attempt=2)), 30)
            message = await process.next(FrameKind.MESSAGE)
            await asyncio.to_thread(eventually, lambda: places.free("mail") == pace.PER_THREAD - 1)
            process.tell(FrameKind.DONE, message, result=1)
            assert await first == {"body": 1}

    run(opening(service), main)


def test_process_that_sends_and_does_not_read_loses_its_connection(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each late outcome has an answer, and the answers would fill the memory of the worker."""
    monkeypatch.setattr(process_session, "MAX_UNREAD_BYTES", MIB // 16)
    service = service_of(sockets, quick_registrations())
    late = encode(FrameKind.DONE, execution="x" * 64, attempt=1)

    async def main(_: ActorDispatcher) -> None:
        async with process_at(service) as process:
            await process.next(FrameKind.WELCOME)
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(flood(process.writer, late), 30)
            await asyncio.to_thread(eventually, lambda: not service.processes.serving("mail"))

    run(opening(service), main)


async def flood(writer: asyncio.StreamWriter, frame: bytes) -> None:
    while True:
        writer.write(frame * 1_000)
        await writer.drain()
