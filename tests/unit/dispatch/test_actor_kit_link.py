"""Link of the actor kit, against a socket of the test."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq import Message, Worker
from dramatiq.middleware import Callbacks, Middleware, Pipelines, Retries
from task_executor_dramatiq import TaskExecutorBroker, frames, link
from task_executor_dramatiq.consumer import ActorConsumer
from task_executor_dramatiq.frames import FrameReader, encode
from task_executor_dramatiq.link import Links
from task_executor_dramatiq.messages import Job
from task_executor_dramatiq.refusals import refusal_line
from task_executor_dramatiq.sending import UnknownActorError

from tests.unit.dispatch.conftest import KEY, PATIENCE_SECONDS
from tests.waiting import eventually


def read_to_the_end(server: socket.socket, *frames: bytes) -> bool:
    """Send frames to the process that connects; return whether it closes its connection."""
    connection, _ = server.accept()
    server.close()
    with connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(b"".join(frames))
        while connection.recv(65_536):
            pass
    return True


def test_process_leaves_a_stopping_worker_after_the_abort_of_a_message_that_was_not_started(
    listening: tuple[Path, socket.socket],
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    links.set_room("mails", 1)
    sent = (
        encode("WELCOME", endpoints={}, refused={}),
        encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY),
        encode("ABORT", **KEY),
        encode("DRAIN"),
    )
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(read_to_the_end, server, *sent)
        links.open()
        assert left.result(2 * PATIENCE_SECONDS)
    links.close()


def test_process_that_leaves_a_stopping_worker_reads_until_the_worker_closes(
    listening: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """By TCP, a frame that finds nobody reading makes the system drop outcomes that are still to be sent."""
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    message = {"actor": "mail", "queue": "mails", "input": {}}
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(encode("WELCOME", endpoints={}, refused={}) + encode("MESSAGE", **message, **KEY))
        opened.result(PATIENCE_SECONDS)
        last = inbox.get(timeout=PATIENCE_SECONDS)
        last.start()
        connection.sendall(encode("DRAIN"))
        eventually(lambda: links._workers.avoided is not None)  # noqa: SLF001 - nothing else shows that it was read
        last.conclude(is_failed=False)
        with connection:
            sent = b"".join(iter(lambda: connection.recv(65_536), b""))
            connection.sendall(encode("MESSAGE", **message, execution="late", attempt=1))
            connection.sendall(encode("WRITTEN", is_written=False, **KEY))
            eventually(lambda: "came too late" in caplog.text)
    *_, outcome = FrameReader().feed(sent)
    assert outcome["kind"] == "DONE"
    assert inbox.empty()
    links.close()


def test_process_that_ends_reads_until_the_worker_closes(listening: tuple[Path, socket.socket]) -> None:
    """Otherwise the system may drop its last outcomes, as above."""
    path, server = listening
    links = Links(f"unix:{path}", list)
    with ThreadPoolExecutor(2) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(encode("WELCOME", endpoints={}, refused={}))
        opened.result(PATIENCE_SECONDS)
        closed = pool.submit(links.close)
        with connection:
            while connection.recv(65_536):
                pass
            connection.sendall(encode("WRITTEN", is_written=True, **KEY))
            assert not closed.done()
        closed.result(PATIENCE_SECONDS)
    assert not links.is_open


def test_process_that_ends_waits_until_its_last_outcome_is_stored(listening: tuple[Path, socket.socket]) -> None:
    """By TCP a close could lose the outcome, which may be under way for longer than a close waits."""
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    with ThreadPoolExecutor(2) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        message = encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY)
        connection.sendall(encode("WELCOME", endpoints={}, refused={}) + message)
        opened.result(PATIENCE_SECONDS)
        last = inbox.get(timeout=PATIENCE_SECONDS)
        last.start()
        last.conclude(is_failed=False)
        closed = pool.submit(links.close)
        reader, kinds = FrameReader(), list[str]()
        with connection:
            while "DONE" not in kinds:
                kinds += [frame["kind"] for frame in reader.feed(connection.recv(65_536))]
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):  # the process has not ended its side
                connection.recv(1)
            connection.setblocking(True)
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WRITTEN", is_written=True, **KEY))
            assert connection.recv(1) == b""
        closed.result(PATIENCE_SECONDS)


def test_malformed_message_fails_and_the_next_one_arrives(listening: tuple[Path, socket.socket]) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    named = {"actor": "mail", "queue": "mails", "attempt": 1}
    bad = encode("MESSAGE", input={"encoded": 5}, execution="bad", **named)
    good = encode("MESSAGE", input={}, execution="good", **named)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        with server.accept()[0] as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WELCOME", endpoints={}, refused={}) + bad + good)
            opened.result(PATIENCE_SECONDS)
            assert inbox.get(timeout=PATIENCE_SECONDS).key == ("good", 1)
            reader, seen = FrameReader(), list[dict[str, Any]]()
            while not seen or seen[-1]["kind"] != "FAILED":
                seen += reader.feed(connection.recv(65_536))
    assert (seen[-1]["execution"], seen[-1]["error"]["category"]) == ("bad", "MALFORMED")
    links.close()


def is_locked(lock: Any) -> bool:
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


def test_process_leaves_a_stopping_worker_that_hangs(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LEAVE_SECONDS", 0.05)
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        hanging, _ = server.accept()
        with hanging:
            message = encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY)
            hanging.sendall(encode("WELCOME", endpoints={}, refused={}) + message + encode("DRAIN"))
            opened.result(PATIENCE_SECONDS)
            last = inbox.get(timeout=PATIENCE_SECONDS)
            last.start()
            eventually(lambda: links._workers.avoided is not None)  # noqa: SLF001 - nothing else shows that it was read
            last.conclude(is_failed=False)  # by another thread than the one that waits for the worker
            server.accept()[0].close()
    links.close()


def test_outcome_that_a_hanging_worker_does_not_read_goes_by_the_next_connection(
    listening: tuple[Path, socket.socket],
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        hanging, _ = server.accept()
        with hanging:
            message = encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY)
            hanging.sendall(encode("WELCOME", endpoints={}, refused={}) + message)
            opened.result(PATIENCE_SECONDS)
            last = inbox.get(timeout=PATIENCE_SECONDS)
            last.start()
            links._connection.write_seconds = 0.05  # noqa: SLF001 - of this connection only
            last.results.append("x" * 4_000_000)
            last.conclude(is_failed=False)
            connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            reader, kinds = FrameReader(), list[str]()
            while "DONE" not in kinds:
                kinds += [frame["kind"] for frame in reader.feed(connection.recv(65_536))]
            connection.sendall(encode("WRITTEN", is_written=True, **KEY))
    links.close()


@pytest.mark.parametrize("hang", ["at the end", "of an outcome", "of a message that goes back", "of the DRAIN"])
def test_process_closes_although_its_worker_hangs(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    """A worker that reads nothing; with a full buffer, a write of another thread or of this one hangs, too."""
    monkeypatch.setattr(link, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(link, "REPORT_SECONDS", 0.05)
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 2)
    with ThreadPoolExecutor(3) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        with connection:
            connection.sendall(encode("WELCOME", endpoints={}, refused={}))
            for attempt in (1, 2):
                message = {"actor": "mail", "queue": "mails", "input": {}, "execution": "e", "attempt": attempt}
                connection.sendall(encode("MESSAGE", **message))
            opened.result(PATIENCE_SECONDS)
            message = inbox.get(timeout=PATIENCE_SECONDS)
            if hang in {"of a message that goes back", "of the DRAIN"}:
                with suppress(BlockingIOError):
                    while True:
                        links._connection._socket.send(b"x", socket.MSG_DONTWAIT)  # noqa: SLF001 - fills the buffer
            elif hang == "of an outcome":
                message.start()
                inbox.get(timeout=PATIENCE_SECONDS).start()  # else the outcome would wait for its start
                message.results.append("x" * 8_000_000)
                ending = pool.submit(message.conclude, is_failed=False)
                eventually(lambda: is_locked(links.lock))  # nothing else shows that a write hangs
            if hang in {"of an outcome", "of the DRAIN"}:
                pool.submit(links.stop_messages).result(PATIENCE_SECONDS)
            if hang == "of an outcome":  # by the next connection, it delays no other thread for longer either
                with server.accept()[0] as again:
                    again.recv(1)
                    pool.submit(links.set_room, "mails", 0).result(PATIENCE_SECONDS)
            pool.submit(links.close).result(PATIENCE_SECONDS)
            if hang == "of an outcome":
                ending.result(PATIENCE_SECONDS)
    assert not links.is_open


def test_outcome_that_is_too_large_to_send_fails_its_message(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 1_000)
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(encode("WELCOME", endpoints={}, refused={}))
        connection.sendall(encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY))
        opened.result(PATIENCE_SECONDS)
    message = inbox.get(timeout=PATIENCE_SECONDS)
    message.start()
    message.results.append("x" * 1_000)
    message.conclude(is_failed=False)
    connection.sendall(encode("WRITTEN", is_written=True, **KEY))
    links.close()
    with connection:
        sent = b"".join(iter(lambda: connection.recv(65_536), b""))
    *_, outcome = FrameReader().feed(sent)
    assert (outcome["kind"], outcome["error"]["type"]) == ("FAILED", "RESULT_TOO_LARGE")


def test_consumer_ignores_messages_that_it_has_not_brought(listening: tuple[Path, socket.socket]) -> None:
    path, server = listening
    consumer = ActorConsumer(Links(f"unix:{path}", list), "mails", 1, 0)
    foreign: Any = Message("mails", "mail", (), {}, {})
    consumer.ack(foreign)
    consumer.nack(foreign)
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.accept()


@pytest.mark.parametrize(("prefetch", "own", "places"), [(8, 0, 64), (3, 0, 3), (8, 8, 8)])
def test_process_offers_more_places_than_dramatiq_unless_the_user_sets_them(
    listening: tuple[Path, socket.socket], prefetch: int, own: int, places: int
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    links.threads, links.prefetch = 4, own
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WELCOME", endpoints={}, refused={}))
            opened.result(PATIENCE_SECONDS)
            ActorConsumer(links, "mails", prefetch, 0)
            links.close()
            sent = b"".join(iter(lambda: connection.recv(65_536), b""))
    rooms = [frame["places"] for frame in FrameReader().feed(sent) if frame["kind"] == "ROOM"]
    assert rooms == [places]


class Audit(Middleware):
    """Sends a message after each actor."""

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        broker.actors["audit"].send(message.actor_name)


@pytest.fixture
def broker(listening: tuple[Path, socket.socket]) -> Iterator[TaskExecutorBroker]:
    """A broker that cannot send: all messages must go with the outcome."""
    middleware = [Callbacks(), Pipelines(), Retries(), Audit()]  # the last one handles an end first
    url, worker = "postgresql://nobody@127.0.0.1:1/none", f"unix:{listening[0]}"
    broker = TaskExecutorBroker(url=url, worker=worker, middleware=middleware, results=False)
    dramatiq.actor(lambda _: None, actor_name="audit", broker=broker)
    dramatiq.actor(lambda *_: None, actor_name="next", broker=broker)
    yield broker
    broker.close()


def outcome_of(broker: TaskExecutorBroker, server: socket.socket, input_: dict[str, Any]) -> dict[str, Any]:
    """Give a message of the actor `mail` to the process and return its outcome."""
    worker = Worker(broker, worker_timeout=100, worker_threads=1)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(worker.start)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WELCOME", endpoints={name: name for name in broker.actors}, refused={}))
            started.result(PATIENCE_SECONDS)
            reader = FrameReader()
            for data in iter(lambda: connection.recv(65_536), b""):
                for frame in reader.feed(data):
                    if frame["kind"] == "ROOM" and frame["places"]:
                        connection.sendall(encode("MESSAGE", actor="mail", queue="default", input=input_, **KEY))
                    elif frame["kind"] in {"DONE", "AGAIN", "FAILED"}:
                        connection.sendall(encode("WRITTEN", is_written=True, **KEY))
                        worker.stop()
                        return frame
    raise AssertionError("no outcome came")


def test_process_that_stops_asks_for_no_further_message_while_an_actor_runs(
    broker: TaskExecutorBroker, listening: tuple[Path, socket.socket]
) -> None:
    may_end = threading.Event()
    dramatiq.actor(lambda: may_end.wait(PATIENCE_SECONDS / 4), actor_name="mail", broker=broker)
    worker = Worker(broker, worker_timeout=100, worker_threads=1)
    with ThreadPoolExecutor(2) as pool:
        started = pool.submit(worker.start)
        connection, _ = listening[1].accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WELCOME", endpoints={name: name for name in broker.actors}, refused={}))
            started.result(PATIENCE_SECONDS)
            reader, seen, stopped = FrameReader(), list[str](), None
            for data in iter(lambda: connection.recv(65_536), b""):
                arrived = [frame["kind"] for frame in reader.feed(data)]
                seen += arrived
                if "ROOM" in arrived and stopped is None:
                    connection.sendall(encode("MESSAGE", actor="mail", queue="default", input={}, **KEY))
                elif "STARTED" in arrived:
                    stopped = pool.submit(worker.stop)
                if "DRAIN" in seen:
                    may_end.set()
                if "DONE" in arrived:
                    connection.sendall(encode("WRITTEN", is_written=True, **KEY))
        assert stopped is not None
        stopped.result(PATIENCE_SECONDS)
    assert [kind for kind in seen if kind != "ROOM"] == ["HELLO", "STARTED", "DRAIN", "DONE"]


def test_retry_is_kept_after_a_message_that_middleware_sends_first(
    broker: TaskExecutorBroker, listening: tuple[Path, socket.socket]
) -> None:
    def mail() -> None:
        raise RuntimeError("failed")

    dramatiq.actor(mail, broker=broker, min_backoff=5_000, on_failure="next")
    outcome = outcome_of(broker, listening[1], {})
    assert (outcome["kind"], outcome["error"]["type"]) == ("AGAIN", "RuntimeError")
    assert [job["endpoint"] for job in outcome["then"]] == ["audit", "next"]


def test_sender_is_told_why_the_worker_does_not_register_an_actor(
    broker: TaskExecutorBroker, listening: tuple[Path, socket.socket]
) -> None:
    class Unknowing:
        """Sender to a service that knows no actor."""

        def send(self, job: Job) -> None:
            raise UnknownActorError(f"there is no endpoint {job.endpoint}")

        def close(self) -> None:
            pass

    broker.sender = Unknowing()  # type: ignore[assignment]
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(broker.get_actor("next").send)
        connection, _ = listening[1].accept()
        with connection:
            welcome = encode("WELCOME", endpoints={}, refused={"next": "its queue is closed to the key"})
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(welcome)
            reader, hellos = FrameReader(), 0
            while hellos < 2:  # of the connection, and of the registration
                hellos += sum(frame["kind"] == "HELLO" for frame in reader.feed(connection.recv(65_536)))
            connection.sendall(welcome)
            with pytest.raises(UnknownActorError, match="does not register it: its queue is closed to the key"):
                refused.result(PATIENCE_SECONDS)


def test_refused_actors_are_logged_in_one_line_and_registered_no_second_time(
    broker: TaskExecutorBroker, listening: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        consumer = pool.submit(broker.consume, "default")
        connection, _ = listening[1].accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(encode("WELCOME", endpoints={}, refused=dict.fromkeys(broker.actors, "closed")))
            consumer.result(PATIENCE_SECONDS)
            broker.close()
            sent = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert [frame["kind"] for frame in FrameReader().feed(sent)] == ["HELLO", "ROOM"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        refusal_line(dict.fromkeys(broker.actors, "closed"))
    ]


def test_line_about_refused_actors_says_which_why_and_what_to_do() -> None:
    next_step = "Remove the reason and restart the process; GET /actors shows each refusal"
    start, here = "the worker refuses", "of this process, and sends no message of"
    assert refusal_line({"mail": "It is taken."}) == f"{start} 1 actor {here} it here: mail: It is taken. {next_step}"
    shown = "a: closed; b: closed; c: closed; and 2 more"
    many = refusal_line(dict.fromkeys("abcde", "closed"))
    assert many == f"{start} 5 actors {here} them here: {shown}. {next_step}"


def test_all_messages_of_an_end_go_with_its_outcome(
    broker: TaskExecutorBroker, listening: tuple[Path, socket.socket]
) -> None:
    dramatiq.actor(lambda: None, actor_name="mail", broker=broker, on_success="next")
    target = Message("default", "next", (), {}, {"pipe_ignore": True}).asdict()
    outcome = outcome_of(broker, listening[1], {"args": [], "options": {"pipe_target": target}})
    assert outcome["kind"] == "DONE"
    assert [job["endpoint"] for job in outcome["then"]] == ["audit", "next", "next"]
