"""The embedded servers: an ordinary client can use them, they restart after a crash, and stop() removes them."""

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


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not count as running."""
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


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_server_restarts_on_its_port_after_a_kill_and_leaves_nothing_after_stop(kind: type[Server]) -> None:
    with kind() as server:
        killed, port = server.pid, server.port
        server.kill()
        assert not server.is_running
        server.start()
        assert server.port == port
        assert server.pid != killed
        pid, directory = server.pid, server.directory
        assert is_alive(pid)
        server.stop()
        assert not is_alive(pid)
        assert not directory.exists()
        assert ports.is_free(port)
        server.stop()
        assert not server.is_running


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_server_avoids_a_port_occupied_between_choice_and_start(
    kind: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = other.getsockname()[1]
        choices = iter([taken, ports.free_port()])
        monkeypatch.setattr("app.dev.servers.dev_server.free_port", lambda: next(choices))
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


def test_postgres_starts_again_with_its_kept_data() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # the user of the server must be able to enter the directory
        with Postgres(keep_in=Path(directory)) as server:
            run(server.url, "CREATE TABLE kept AS SELECT 1 AS one")
            with pytest.raises(BlockingIOError):
                Postgres(keep_in=Path(directory)).start()
        with Postgres(keep_in=Path(directory)) as server:
            assert run(server.url, "SELECT one FROM kept") == [(1,)]


@pytest.fixture(scope="module")
def durable() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_postgres_is_utf8_durable_and_requires_a_password(durable: Postgres) -> None:
    shown = {name: run(durable.url, f"SHOW {name}")[0][0] for name in ("fsync", "server_encoding", "max_connections")}
    assert shown == {"fsync": "on", "server_encoding": "UTF8", "max_connections": "300"}
    [(locale,)] = run(durable.url, "SELECT datlocale FROM pg_database WHERE datname = 'postgres'")
    assert locale == "C.UTF-8"
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(f"host=127.0.0.1 port={durable.port} user=postgres dbname=postgres password=wrong")


@pytest.mark.parametrize("ending", ["immediate", "kill"])
def test_postgres_keeps_committed_rows(durable: Postgres, ending: str) -> None:
    run(durable.url, f"CREATE TABLE kept_{ending} (n int)")
    with closing(psycopg2.connect(durable.url)) as open_connection, open_connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO kept_{ending} VALUES (1)")
        open_connection.commit()
        if ending == "kill":
            durable.kill()
            durable.start()
        else:
            durable.restart()
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    assert run(durable.url, f"SELECT n FROM kept_{ending}") == [(1,)]


def test_fast_postgres_gives_up_durability_and_starts_after_a_kill_with_a_busy_backend() -> None:
    """A busy backend outlives the postmaster, and keeps the shared memory in use."""
    assert memory(2**62) is None, "no memory-backed directory has this much space"
    with Postgres(fast=True) as server:
        assert server.directory.parent == (memory(FAST_BYTES) or Path(tempfile.gettempdir()))
        names = ("fsync", "synchronous_commit", "full_page_writes")
        assert [run(server.url, f"SHOW {name}")[0][0] for name in names] == ["off"] * 3
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


def test_valkey_accepts_stream_entries_and_scripts(valkey: Valkey) -> None:
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


def test_tansu_accepts_an_idempotent_producer_and_returns_its_record(kafka: Tansu) -> None:
    kafka.create_topic("contract.orders", partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    producer.produce("contract.orders", key=b"k", value=b"v", headers=[("h", b"1")], partition=0)
    assert producer.flush(10) == 0
    assert read_one(kafka.bootstrap, "contract.orders") == (b"k", b"v", [("h", b"1")])


def test_server_that_cannot_start_reports_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Valkey, "_command", lambda *_: ["/bin/sh", "-c", "echo out of luck; exit 3"])
    server = Valkey()
    with pytest.raises(ServerError, match="out of luck"):
        server.start()
    assert not server.is_running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_ordinary_user_can_run_the_server(kind: type[Server]) -> None:
    # The Python of the tests may lie under /root, closed to other users. Any Python can launch the server, so the
    # system's is the fallback.
    python = next((path for path in (sys.executable, "/usr/bin/python3") if _world_can_enter(Path(path))), None)
    if python is None or not _world_can_enter(Path(pytest.__file__)):
        pytest.skip("every Python here, or the environment of the tests, is closed to other users")
    user = pwd.getpwnam("daemon")
    program = (
        # Read now: the other user may be unable to read these modules.
        "import email.parser, encodings.idna, importlib.metadata, os, sys\n"
        "importlib.metadata.version('redis')\n"  # Python 3.13 imports the reader of metadata at its first use
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


def test_server_has_its_own_process_group() -> None:
    with Valkey() as server:
        os.killpg(
            server.pid, signal.SIGTERM
        )  # raises without a process group of this id; SIGTERM must not reach the process of the test
        wait_until_gone(server.pid)
