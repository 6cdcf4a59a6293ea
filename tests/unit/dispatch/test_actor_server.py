"""Server for processes with actors: sessions and registrations."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import actor as actor_dispatch
from actors.dispatch.actor_link import pace, process_records, process_session
from actors.dispatch.actor_link import server as server_module
from actors.dispatch.actor_link.frames import FrameKind, FrameReader, encode
from actors.dispatch.actor_link.hand import Hand, HandKey
from actors.dispatch.actor_link.peer import Peer
from actors.dispatch.actor_link.process_session import Session
from actors.dispatch.actor_link.server import ActorServer, ActorService
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from app.kernel.errors import UnavailableError
from app.kernel.processes.actor_processes import ActorProcess
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.contract.dispatch.dispatching import identity, run
from tests.unit.dispatch.actor_services import Registrations, opening, path_of, quick_registrations, service_of
from tests.waiting import HUNG_SECONDS, eventually

READ_BYTES = 65_536


def hello(session: str, *actors: str) -> bytes:
    return encode(FrameKind.HELLO, protocol=1, session=session, actors=[{"name": name} for name in actors])


async def connect(server: ActorServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    await server.open()
    return await asyncio.open_unix_connection(path_of(server.service))


async def next_frame(reader: asyncio.StreamReader) -> Mapping[str, Any]:
    async with asyncio.timeout(30):
        (frame, *_) = FrameReader().feed(await reader.read(READ_BYTES))
    return frame


async def end(server: ActorServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.close()
    await reader.read()
    writer.close()
    await writer.wait_closed()


def server_of(sockets: Path, registrations: Registrations) -> ActorServer:
    return ActorServer(service_of(sockets, registrations))


def test_second_hello_waits_for_the_registration_of_the_first(sockets: Path) -> None:
    async def main() -> None:
        registrations = Registrations()
        server = server_of(sockets, registrations)
        reader, writer = await connect(server)
        writer.write(hello("s", "a"))
        await asyncio.to_thread(registrations.has_begun.wait, 30)
        writer.write(hello("s", "a", "b") + encode(FrameKind.ROOM, queue="default", places=1))
        await server.freed.wait()  # by the ROOM
        registrations.may_end.set()
        assert {*(await next_frame(reader))["endpoints"]} == {"a", "b"}
        assert {*server.sessions["s"].places.endpoints} == {"a", "b"}
        assert not registrations.has_overtaken
        await end(server, reader, writer)

    asyncio.run(main())


def test_registration_ends_with_its_process_while_the_database_is_away(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Processes connect anew all the time then, and each connection would leave a registration that goes on."""
    monkeypatch.setattr(server_module, "RETRY_SECONDS", 0.01)
    tries = list[str]()

    def register(actors: Sequence[Mapping[str, Any]], _key: object) -> RegisteredActors:
        tries.append(actors[0]["name"])
        raise UnavailableError("no database")

    async def main() -> None:
        server = ActorServer(replace(service_of(sockets, quick_registrations()), register=register))
        await server.open()
        for session in ("a", "b"):
            _reader, writer = await asyncio.open_unix_connection(path_of(server.service))
            writer.write(hello(session, session))
            await asyncio.to_thread(eventually, lambda name=session: tries.count(name) > 1)
            writer.close()
            await writer.wait_closed()
            await asyncio.to_thread(eventually, lambda: not server._tasks)  # noqa: SLF001 - nothing else shows it
        await server.close()

    asyncio.run(main())
    assert caplog.text.count("cannot register") == 1


def test_connection_keeps_its_session(sockets: Path) -> None:
    async def main() -> None:
        server = server_of(sockets, quick_registrations())
        reader, writer = await connect(server)
        writer.write(hello("s", "a"))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        writer.write(hello("other", "a"))
        assert (await next_frame(reader))["kind"] == FrameKind.REFUSED
        assert "other" not in server.sessions
        await end(server, reader, writer)

    asyncio.run(main())


def test_new_connection_of_a_process_takes_back_the_messages_of_the_earlier_one(sockets: Path) -> None:
    async def main() -> None:
        server = server_of(sockets, quick_registrations())
        earlier_reader, earlier = await connect(server)
        earlier.write(hello("s", "a"))
        assert (await next_frame(earlier_reader))["kind"] == FrameKind.WELCOME
        session = server.sessions["s"]
        hand = Hand(session, HandKey("e", 1), "default")
        session.take(hand)
        reader, writer = await asyncio.open_unix_connection(path_of(server.service))
        writer.write(hello("s", "a"))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        assert hand.outcome.result()["kind"] == FrameKind.BACK
        earlier.close()
        await earlier.wait_closed()
        await end(server, reader, writer)

    asyncio.run(main())


async def connected(service: ActorService) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a process with a place for the actor."""
    await asyncio.to_thread(eventually, path_of(service).is_socket)
    reader, writer = await asyncio.open_unix_connection(path_of(service))
    writer.write(hello("s", "mail") + encode(FrameKind.ROOM, queue="default", places=1))
    assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
    return reader, writer


def test_started_message_ends_with_its_time_limit(sockets: Path) -> None:
    service = service_of(sockets, quick_registrations())
    spec = {"actor": "mail", "queue": "default", "arguments": {}, "timeout_ms": 50, "max_lost": 3}

    async def main(dispatcher: actor_dispatch.ActorDispatcher) -> None:
        reader, writer = await connected(service)
        sending = asyncio.ensure_future(dispatcher.send(spec, identity()))
        message = await next_frame(reader)
        writer.write(encode(FrameKind.STARTED, execution=message["execution"], attempt=message["attempt"]))
        with pytest.raises(DeliveryError, match="within 50 ms"):
            async with asyncio.timeout(30):
                await sending
        assert (await next_frame(reader))["kind"] == FrameKind.ABORT
        await dispatcher.close()
        writer.close()
        await writer.wait_closed()

    run(opening(service), main)


def test_message_runs_for_its_own_time_limit(sockets: Path) -> None:
    service = service_of(sockets, quick_registrations())
    arguments = {"args": [], "kwargs": {}, "options": {"time_limit": 1_000}}
    spec = {"actor": "mail", "queue": "default", "arguments": arguments, "timeout_ms": 50, "max_lost": 3}

    async def main(dispatcher: actor_dispatch.ActorDispatcher) -> None:
        reader, writer = await connected(service)
        sending = asyncio.ensure_future(dispatcher.send(spec, identity()))
        message = await next_frame(reader)
        assert message["timeout_ms"] == 31_000
        named = {"execution": message["execution"], "attempt": message["attempt"]}
        writer.write(encode(FrameKind.STARTED, **named))
        await asyncio.sleep(0.2)
        writer.write(encode(FrameKind.DONE, result=1, **named))
        assert await asyncio.wait_for(sending, 30) == {"body": 1}
        await dispatcher.close()
        writer.close()
        await writer.wait_closed()

    run(opening(service), main)


def test_process_is_recorded_with_the_actors_it_runs_and_when_it_leaves(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_records, "RETRY_SECONDS", 0.0)
    registrations = quick_registrations()
    registrations.failures = 2
    server = server_of(sockets, registrations)

    async def main() -> None:
        reader, writer = await connect(server)
        about = {"host": "app-1\0", "pid": 4711, "threads": 3}
        actors = [{"name": "a"}, {"name": "b", "queue": "other"}]
        writer.write(encode(FrameKind.HELLO, protocol=1, session="s", actors=actors, **about))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        await asyncio.to_thread(eventually, lambda: registrations.records)
        writer.write(encode(FrameKind.ROOM, queue="default", places=2))
        await asyncio.to_thread(eventually, lambda: len(registrations.records) == 2)
        writer.close()
        await writer.wait_closed()
        await asyncio.to_thread(eventually, lambda: len(registrations.records) == 3)
        await server.close()

    asyncio.run(main())
    sender, here, gone = registrations.records
    assert sender.endpoints == ()
    assert here == ActorProcess(session_id="s", host="app-1?", pid=4711, threads=3, endpoints=("a",), is_connected=True)
    assert (gone.session_id, gone.is_connected) == ("s", False)


def test_refusals_of_the_queues_that_a_process_runs_are_recorded_and_all_logged_in_one_line(
    sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registrations = quick_registrations()
    registrations.refused = {f"pay_{number}": "closed" for number in range(300)} | {"mail": "taken"}
    server = server_of(sockets, registrations)

    async def main() -> None:
        reader, writer = await connect(server)
        actors = [{"name": name, "queue": "mails" if name == "mail" else "money"} for name in registrations.refused]
        writer.write(encode(FrameKind.HELLO, protocol=1, session="s", actors=actors))
        writer.write(encode(FrameKind.ROOM, queue="mails", places=2))
        await asyncio.to_thread(eventually, lambda: registrations.records and registrations.records[-1].refused)
        await end(server, reader, writer)

    asyncio.run(main())
    assert registrations.records[-1].refused == {"mail": "taken"}
    (line,) = (record.getMessage() for record in caplog.records if "no endpoint" in record.message)
    assert line == f"no endpoint for 301 actors of process {os.getpid()}: pay_0: closed; pay_1: closed; pay_2: closed"


def test_message_of_an_earlier_version_goes_to_the_present_queue_of_its_actor(sockets: Path) -> None:
    service = service_of(sockets, quick_registrations())
    spec = {"actor": "mail", "queue": "earlier", "arguments": {}, "timeout_ms": 30_000, "max_lost": 3}

    async def main(dispatcher: actor_dispatch.ActorDispatcher) -> None:
        await asyncio.to_thread(eventually, path_of(service).is_socket)
        reader, writer = await asyncio.open_unix_connection(path_of(service))
        actors = [{"name": "mail", "queue": "present"}]
        room = encode(FrameKind.ROOM, queue="present", places=1)
        writer.write(encode(FrameKind.HELLO, protocol=1, session="s", actors=actors) + room)
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        sending = asyncio.ensure_future(dispatcher.send(spec, identity()))
        message = await next_frame(reader)
        assert (message["kind"], message["queue"]) == ("MESSAGE", "present")
        places = service.processes.serving("mail")[0]
        assert places.free("mail") == 0
        named = {"execution": message["execution"], "attempt": message["attempt"]}
        writer.write(encode(FrameKind.DONE, **named, result=1))
        assert await sending == {"body": 1}
        await dispatcher.close()
        writer.close()
        await writer.wait_closed()

    run(opening(service), main)


def test_process_with_very_quick_actors_gets_more_messages_in_advance(sockets: Path) -> None:
    async def main() -> None:
        server = server_of(sockets, quick_registrations())
        reader, writer = await connect(server)
        writer.write(encode(FrameKind.HELLO, protocol=1, session="s", threads=4, actors=[{"name": "a"}]))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        session = server.sessions["s"]
        assert session.places.total == 4 * pace.PER_THREAD
        for number in range(pace.MIN_MEASURED):
            hand = Hand(session, HandKey("e", number), "default")
            session.take(hand)
            session.started(hand.key)
            session.leave(hand)
        assert session.places.total == 4 * pace.MAX_PER_THREAD
        hands = [Hand(session, HandKey("f", number), "default") for number in range(4 * pace.PER_THREAD + 1)]
        for hand in hands:
            session.take(hand)
        session.drop(hands[0])
        assert session.places.total == 4 * pace.MAX_PER_THREAD
        session.drop(hands[-1])  # it came in advance, and no thread was free after all
        assert session.places.total == 4 * pace.PER_THREAD
        await end(server, reader, writer)

    asyncio.run(main())


def test_message_in_advance_comes_back_soon(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "MIN_MEASURED", 0)  # the process counts as very quick
    monkeypatch.setattr(process_session, "AHEAD_SECONDS", 0.01)
    service = service_of(sockets, quick_registrations())
    spec = {"actor": "mail", "queue": "default", "arguments": {}, "timeout_ms": 30_000, "max_lost": 3}

    async def main(dispatcher: actor_dispatch.ActorDispatcher) -> None:
        await asyncio.to_thread(eventually, path_of(service).is_socket)
        reader, writer = await asyncio.open_unix_connection(path_of(service))
        writer.write(hello("s", "mail") + encode(FrameKind.ROOM, queue="default", places=16))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        places = service.processes.serving("mail")[0]
        assert places.total == pace.MAX_PER_THREAD
        sending = [asyncio.ensure_future(dispatcher.send(spec, identity(attempt=number))) for number in (1, 2, 3)]
        frames = FrameReader()
        seen = list[Mapping[str, Any]]()
        async with asyncio.timeout(30):
            while not seen or seen[-1]["kind"] != FrameKind.DROP:
                seen += frames.feed(await reader.read(READ_BYTES))
        assert [(frame["kind"], frame["attempt"]) for frame in seen[-1:]] == [("DROP", 3)]
        named = {"execution": seen[-1]["execution"], "attempt": 3}
        writer.write(encode(FrameKind.BACK, **named))
        with pytest.raises(NotSentError):
            await sending[2]
        for each in sending[:2]:
            each.cancel()
        await asyncio.gather(*sending[:2], return_exceptions=True)
        await dispatcher.close()
        writer.close()
        await writer.wait_closed()

    run(opening(service), main)


def test_frames_of_one_turn_of_the_loop_share_a_write_and_none_is_lost_at_the_end(sockets: Path) -> None:
    async def main() -> None:
        server = server_of(sockets, quick_registrations())
        reader, writer = await connect(server)
        writer.write(hello("s", "a"))
        await next_frame(reader)
        session = server.sessions["s"]
        for attempt in range(3):
            session.send(FrameKind.WRITTEN, execution="e", attempt=attempt, is_written=True)
        await server.close()
        frames = FrameReader().feed(await reader.read())
        assert [frame["attempt"] for frame in frames] == [0, 1, 2]
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())


def test_deadlines_share_a_timer(sockets: Path) -> None:
    passed = list[str]()

    async def main() -> None:
        server = server_of(sockets, quick_registrations())
        session = Session("s", {}, Peer(None, None, None))
        hands = [Hand(session, HandKey("e", number), "default") for number in range(4)]
        for number, seconds in enumerate((60.0, 0.06, 0.02)):
            hands[number].watch(server.deadlines, seconds, (seconds / 2, partial(passed.append, f"soft {number}")))
            hands[number].start()
        hands[3].watch(server.deadlines, 0.01, None)
        hands[3].start()
        hands[3].unwatch()
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined] # noqa: SLF001
        assert sum(not timer.cancelled() for timer in timers) == 1
        for number in (2, 1):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await hands[number].outcome
            passed.append(f"hard {number}")
        assert [each.outcome.done() for each in hands] == [False, True, True, False]

    asyncio.run(main())
    assert sorted(passed) == ["hard 1", "hard 2", "soft 1", "soft 2"]
    assert all(passed.index(f"soft {number}") < passed.index(f"hard {number}") for number in (1, 2))


def test_error_at_a_soft_limit_ends_no_deadline(sockets: Path) -> None:
    errors = list[str]()

    def fail() -> None:
        raise RuntimeError("not sent")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(str(context["exception"])))
        server = server_of(sockets, quick_registrations())
        session = Session("s", {}, Peer(None, None, None))
        hands = [Hand(session, HandKey("e", number), "default") for number in range(2)]
        for hand, soft in zip(hands, ((0.01, fail), None), strict=True):
            hand.watch(server.deadlines, 0.03, soft)
            hand.start()
        done, _ = await asyncio.wait([hand.outcome for hand in hands], timeout=HUNG_SECONDS)
        assert [type(each.exception()) for each in done] == [TimeoutError] * 2

    asyncio.run(main())
    assert errors == ["not sent"]
