"""Last frames of a process that is killed while the worker writes to it."""

import asyncio
import socket
from pathlib import Path

import pytest
import uvloop

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor_link.frames import FrameKind, FrameReader, encode
from actors.dispatch.actor_link.hand import Hand, HandKey
from actors.dispatch.actor_link.server import ActorServer
from tests.unit.dispatch.actor_services import path_of, quick_registrations, service_of

HELLO = {"protocol": 1, "session": "s", "threads": 1, "actors": [{"name": "mail"}]}


async def outcome_of_last_frames(sockets: Path, *last: FrameKind) -> Hand:
    """Return a message about which a process sends frames before its end, which the worker sees by its own write."""
    server = ActorServer(service_of(sockets, quick_registrations()))
    await server.open()
    key = HandKey("exec_1", 1)
    named = {"execution": key.execution_id, "attempt": key.attempt}
    with socket.socket(socket.AF_UNIX) as process:
        process.settimeout(30)
        process.connect(str(path_of(server.service)))
        process.sendall(encode(FrameKind.HELLO, **HELLO))
        (welcome, *_) = FrameReader().feed(await asyncio.to_thread(process.recv, 65_536))
        assert welcome["kind"] == FrameKind.WELCOME
        session = server.sessions["s"]
        hand = Hand(session, key, "default")
        session.take(hand)
        process.sendall(b"".join(encode(kind, **named) for kind in last))
    session.send(FrameKind.DROP, **named)
    session.flush()
    async with asyncio.timeout(30):
        while session.transport is not None:  # noqa: ASYNC110 - a connection has no signal of its end for tests
            await asyncio.sleep(0)
    await server.close()
    return hand


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_frames_before_a_kill_are_received(sockets: Path, run: object) -> None:
    """Without STARTED, the run would leave no attempt; without DONE, there would be another run."""
    assert callable(run)
    started = run(outcome_of_last_frames(sockets, FrameKind.STARTED))
    assert (started.started_at > 0, started.outcome.done()) == (True, False)
    ended = run(outcome_of_last_frames(sockets, FrameKind.STARTED, FrameKind.DONE))
    assert ended.outcome.result()["kind"] == FrameKind.DONE
    unstarted = run(outcome_of_last_frames(sockets))
    assert unstarted.outcome.result()["kind"] == FrameKind.BACK
