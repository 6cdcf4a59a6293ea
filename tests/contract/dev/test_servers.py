"""The embedded servers: usable by an ordinary client, alive again after a crash, gone after stop()."""

import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import psycopg2.extras
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from app.dev.process import ports
from app.dev.process.workdir import memory
from app.dev.servers import Postgres, Server, ServerError, Tansu, Valkey
from app.dev.servers.postgres import FAST_BYTES

ALL = [Postgres, Valkey, Tansu]


@pytest.fixture(params=ALL, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as started:
        yield started


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie that nobody has reaped doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


def test_stop_leaves_no_process_and_no_file(server: Server) -> None:
    pid, directory, port = server.pid, server.directory, server.port
    assert is_alive(pid)
    server.stop()
    assert not is_alive(pid)
    assert not directory.exists()
    assert ports.is_free(port)


def test_stop_twice_is_fine(server: Server) -> None:
    server.stop()
    server.stop()
    assert not server.is_running


def test_comes_back_on_its_port_after_kill(server: Server) -> None:
    pid, port = server.pid, server.port
    server.kill()
    assert not server.is_running
    server.start()
    assert server.port == port
    assert server.pid != pid


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_taken_port_is_chosen_around(kind: type[Server]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = other.getsockname()[1]
        with kind(port=taken) as server:
            assert server.port != taken


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_port_taken_between_choice_and_start_is_chosen_around(
    kind: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = other.getsockname()[1]
        choices = iter([taken, ports.free_port()])
        monkeypatch.setattr("app.dev.servers.dev_server.free_port", lambda _preferred: next(choices))
        with kind() as server:
            assert server.port != taken


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_kill_9_of_the_owner_leaves_no_server(kind: type[Server]) -> None:
    program = (
        f"import time; from app.dev.servers import {kind.__name__} as S; s = S(); s.start(); "
        "print(s.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
    wait_until_gone(pid)


def test_postgres_that_keeps_its_data_starts_with_it_again() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # its user must be able to enter
        with Postgres(keep_in=Path(directory)) as server:
            run(server.url, "CREATE TABLE kept AS SELECT 1 AS one")
            with pytest.raises(BlockingIOError):
                Postgres(keep_in=Path(directory)).start()
        with Postgres(keep_in=Path(directory)) as server:
            assert run(server.url, "SELECT one FROM kept") == [(1,)]


def test_postgres_is_utf8_durable_and_wants_a_password() -> None:
    with Postgres() as server:
        shown = {
            name: run(server.url, f"SHOW {name}")[0][0] for name in ("fsync", "server_encoding", "max_connections")
        }
        assert shown == {"fsync": "on", "server_encoding": "UTF8", "max_connections": "300"}
        [(locale,)] = run(server.url, "SELECT datlocale FROM pg_database WHERE datname = 'postgres'")
        assert locale == "C.UTF-8"
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres password=wrong")


def test_fast_postgres_gives_up_durability() -> None:
    assert memory(2**62) is None, "nowhere is that much room"
    with Postgres(fast=True) as server:
        assert server.directory.parent == (memory(FAST_BYTES) or Path(tempfile.gettempdir()))
        names = ("fsync", "synchronous_commit", "full_page_writes")
        assert [run(server.url, f"SHOW {name}")[0][0] for name in names] == ["off"] * 3


@pytest.mark.parametrize("how", ["immediate", "kill"])
def test_postgres_keeps_what_was_committed(how: str) -> None:
    with Postgres() as server:
        run(server.url, "CREATE TABLE kept (n int)")
        with closing(psycopg2.connect(server.url)) as open_connection, open_connection.cursor() as cursor:
            cursor.execute("INSERT INTO kept VALUES (1)")
            open_connection.commit()
            if how == "kill":
                server.kill()
                server.start()
            else:
                server.restart()
            with pytest.raises(psycopg2.OperationalError):
                cursor.execute("SELECT 1")
        assert run(server.url, "SELECT n FROM kept") == [(1,)]


def test_postgres_starts_after_a_kill_with_a_busy_backend() -> None:
    """A backend in mid-calculation outlives the postmaster, and with it the shared memory."""
    with Postgres(fast=True) as server:
        with closing(psycopg2.connect(server.url, async_=True)) as busy:
            psycopg2.extras.wait_select(busy)
            busy.cursor().execute("SELECT count(*) FROM generate_series(1, 30000000)")
            deadline = time.monotonic() + 60
            while not run(
                server.url,
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 3%' AND state = 'active'",
            ):
                assert time.monotonic() < deadline
            server.kill()
            server.start()
        assert run(server.url, "SELECT 1") == [(1,)]


def test_valkey_takes_stream_entries_and_scripts(valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        message_id = client.eval("return redis.call('XADD', KEYS[1], '*', 'a', ARGV[1])", 1, "stream", "b")
        assert client.xrange("stream") == [(message_id, {"a": "b"})]
        assert client.config_get("save") == {"save": ""}


def read_one(bootstrap: str, topic: str) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        return message.key(), message.value(), message.headers()
    finally:
        consumer.close()


def test_tansu_takes_an_idempotent_producer_and_gives_the_record_back(kafka: Tansu) -> None:
    kafka.create_topic("contract.orders", partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    producer.produce("contract.orders", key=b"k", value=b"v", headers=[("h", b"1")], partition=0)
    assert producer.flush(10) == 0
    assert read_one(kafka.bootstrap, "contract.orders") == (b"k", b"v", [("h", b"1")])


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Valkey, "_command", lambda *_: ["/bin/sh", "-c", "echo out of luck; exit 3"])
    server = Valkey()
    with pytest.raises(ServerError, match="out of luck"):
        server.start()
    assert not server.is_running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_an_ordinary_user_can_run_it(kind: type[Server]) -> None:
    # Our own Python may lie under /root; then the system's launches the server, for which any version will do.
    python = next((path for path in (sys.executable, "/usr/bin/python3") if _world_can_enter(Path(path))), None)
    if python is None:
        pytest.skip("every Python here is closed to other users")
    user = pwd.getpwnam("daemon")
    program = (
        "import email.parser, encodings.idna, os, sys\n"  # what is imported later, it could no longer read
        f"from app.dev.servers import {kind.__name__} as Kind\n"
        f"sys.executable = {python!r}\n"
        f"os.setgroups([]); os.setgid({user.pw_gid}); os.setuid({user.pw_uid})\n"
        "with Kind(): pass\n"
        "print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=False)
    assert done.stdout == "fine\n", done.stderr


def _world_can_enter(path: Path) -> bool:
    return path.exists() and all(
        parent.stat().st_mode & 0o001 for start in (path, path.resolve()) for parent in start.parents
    )


def test_sigterm_to_the_child_is_not_sent_to_us() -> None:
    with Valkey() as server:
        os.killpg(server.pid, signal.SIGTERM)  # raises if it had no group of its own
        wait_until_gone(server.pid)
