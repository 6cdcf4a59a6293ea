"""Peers: users and groups whose processes may run actors."""

import asyncio
import grp
import os
import pwd
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor_link import process_session
from actors.dispatch.actor_link.frames import FrameKind, FrameReader, encode
from actors.dispatch.actor_link.hand import Hand, HandKey
from actors.dispatch.actor_link.peer import AllowedPeers, Peer
from actors.dispatch.actor_link.process_session import Session
from actors.dispatch.actor_link.server import ActorServer
from app.kernel.config import SettingError, Settings
from tests.unit.dispatch.actor_services import quick_registrations, service_of
from tests.waiting import eventually

OTHER = 65_534


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> int:
    """User of the processes of these tests, who is not the user of the worker."""
    if os.geteuid() == 0:
        return OTHER
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    return os.getuid()


def connected_as(uid: int, path: Path) -> socket.socket:
    """Connect; the kernel keeps the ids that the process has at this moment."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    is_root = os.getuid() == 0
    if is_root:
        os.setegid(uid)
        os.seteuid(uid)
    try:
        connection.connect(str(path))
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)
    return connection


def answer_to(connection: socket.socket) -> Mapping[str, Any]:
    with connection:
        with suppress(BrokenPipeError):  # refused already
            connection.sendall(encode(FrameKind.HELLO, protocol=1, session="s", actors=[]))
        (frame, *_) = FrameReader().feed(connection.recv(65_536))
    return frame


def answer_of_a_server(folder: Path, allowed: AllowedPeers, uid: int) -> Mapping[str, Any]:
    async def main() -> Mapping[str, Any]:
        service = replace(service_of(folder, quick_registrations()), allowed=allowed)
        server = ActorServer(service)
        await server.open()
        connection = connected_as(uid, folder / "w.sock")
        try:
            return await asyncio.to_thread(answer_to, connection)
        finally:
            await server.close()

    return asyncio.run(main())


@pytest.fixture
def folder(sockets: Path) -> Path:
    sockets.chmod(0o755)
    return sockets / "actors"


def test_process_of_another_user_is_refused_with_the_fix(folder: Path, stranger: int) -> None:
    answer = answer_of_a_server(folder, AllowedPeers(gids=frozenset({4_000_000})), stranger)
    assert answer["kind"] == FrameKind.REFUSED
    assert f"user {stranger} " in answer["reason"]
    assert "TE_ACTORS_ALLOW" in answer["reason"]


def test_process_of_an_allowed_user_or_group_is_welcome(folder: Path, stranger: int) -> None:
    gid = OTHER if os.getuid() == 0 else os.getgid()
    for allowed in (AllowedPeers(uids=frozenset({stranger})), AllowedPeers(gids=frozenset({gid}))):
        assert answer_of_a_server(folder, allowed, stranger)["kind"] == FrameKind.WELCOME


def test_directory_is_closed_to_others_unless_others_are_allowed(folder: Path) -> None:
    for allowed, mode in ((AllowedPeers(), 0o700), (AllowedPeers(uids=frozenset({OTHER})), 0o755)):
        path = folder / str(mode)
        asyncio.run(opened(path, allowed))
        assert path.stat().st_mode & 0o777 == mode


async def opened(path: Path, allowed: AllowedPeers) -> None:
    server = ActorServer(replace(service_of(path, quick_registrations()), allowed=allowed))
    await server.open()
    assert (path / "w.sock").stat().st_mode & 0o777 == (0o666 if allowed.are_others else 0o600)
    await server.close()


def test_without_credentials_only_a_private_socket_is_open() -> None:
    unknown = Peer(None, None, None)
    assert AllowedPeers().may_run(unknown)
    assert not AllowedPeers(uids=frozenset({1})).may_run(unknown)


def test_setting_names_users_and_groups() -> None:
    environment = {"TE_DATABASE_URL": "postgresql://127.0.0.1/te"}
    user, group = pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name
    names = Settings.from_env(environment | {"TE_ACTORS_ALLOW": f"{user}, 1001,%{group},%7"}).actors_allow
    assert AllowedPeers.of(names) == AllowedPeers(frozenset({0, 1001}), frozenset({0, 7}))
    with pytest.raises(SettingError, match=r"TE_ACTORS_ALLOW is not valid: .*such as shop,1001,%tasks"):
        Settings.from_env(environment | {"TE_ACTORS_ALLOW": "a b"})
    for name, kind in (("no-such-user", "user"), ("%no-such-group", "group")):
        with pytest.raises(SettingError, match=f"no {kind} 'no-such"):
            AllowedPeers.of([name])


def test_session_of_another_user_cannot_be_taken_over(folder: Path) -> None:
    async def main() -> None:
        server = ActorServer(service_of(folder, quick_registrations()))
        await server.open()
        server.sessions["s"] = Session("s", {}, Peer(1, 4_000_000, 1))
        answer = await asyncio.to_thread(answer_to, connected_as(os.getuid(), folder / "w.sock"))
        assert answer["kind"] == FrameKind.REFUSED
        assert "another user" in answer["reason"]
        await server.close()

    asyncio.run(main())


async def is_lost_at_once(pid: int) -> bool:
    """Return whether a started message of a process is lost right after its connection broke."""
    session = Session("s", {}, Peer(pid, 0, 0))
    hand = Hand(session, HandKey("exec_1", 1), "default")
    session.take(hand)
    hand.start()
    session.disconnect()
    waiting = asyncio.create_task(session.wait_for_return())
    await asyncio.sleep(0)
    is_lost = hand.outcome.done()
    session.returned.set()
    await waiting
    return is_lost


def test_process_that_proc_hides_may_connect_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit for systemd hides processes of other users (ProtectProc=invisible)."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert asyncio.run(is_lost_at_once(ended.pid))
    assert not asyncio.run(is_lost_at_once(os.getpid()))
    with monkeypatch.context() as hidden:
        hidden.setattr(process_session, "Path", lambda path: Path("/nowhere") / path.lstrip("/"))
        assert not asyncio.run(is_lost_at_once(os.getpid()))


def test_zombie_of_another_user_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    zombie = subprocess.Popen(["true"])
    eventually(lambda: Path(f"/proc/{zombie.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    with monkeypatch.context() as of_another:
        of_another.setattr(os, "kill", refuse)
        assert asyncio.run(is_lost_at_once(zombie.pid))
        assert not asyncio.run(is_lost_at_once(os.getpid()))
    zombie.wait()
