"""Sending by the actor kit: te_enqueue in transactions of SQLAlchemy, psycopg 2 and 3, and Django."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf, nan
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import dramatiq
import psycopg
import psycopg2
import pytest
from django.db import connections, transaction
from dramatiq.errors import BrokerConnectionError
from dramatiq.middleware import default_middleware
from dramatiq.results import Results
from psycopg.rows import dict_row, scalar_row, tuple_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session
from task_executor_dramatiq import TaskExecutorBroker, UnknownActorError
from task_executor_dramatiq.celery_style import CeleryActor
from task_executor_dramatiq.http_sending import HttpSender
from task_executor_dramatiq.sending import MissingExecutionError, SendError

from app.catalog.endpoints.actor_endpoints import register
from app.kernel.db import Database
from schema.url import database_url as parse_url
from tests.cases import each_case
from tests.django_app import connected
from tests.enqueueing import adopt_settings

pytestmark = pytest.mark.postgresql_only
ALIAS = "te_actors"


@pytest.fixture
def actor(database: Database, database_url: str, tmp_path: Any) -> Iterator[Any]:
    """An actor that the service knows; no worker listens."""
    adopt_settings(database)
    register(database, [{"name": "note"}])
    broker = TaskExecutorBroker(url=database_url, worker=f"unix:{tmp_path}")
    yield dramatiq.actor(lambda word: None, actor_name="note", broker=broker)
    broker.close()


def words(database: Database) -> list[str]:
    found = text("SELECT input->'args'->>0 AS word FROM jobs ORDER BY created_at, job_id")
    return [row.word for row in database.fetch(found)]


def test_message_is_sent_once_by_its_id(actor: Any, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """A copy with another id is another message."""
    caplog.set_level("INFO", "task_executor_dramatiq")
    message = actor.send("a")
    assert caplog.messages == []
    actor.broker.enqueue(message)
    assert words(database) == ["a"]
    (line,) = caplog.messages
    assert line.startswith(f"message {message.message_id} is stored already and runs once")
    actor.broker.enqueue(message.copy(message_id="another"))
    assert words(database) == ["a", "a"]


def send_despite_a_refusal(actor: Any, unknown: Any) -> None:
    actor.send("lost")
    with suppress(UnknownActorError):
        unknown.send()


def test_group_in_a_transaction_of_the_broker_exists_as_a_whole(actor: Any, database: Database) -> None:
    unknown = dramatiq.actor(lambda: None, actor_name="other", broker=actor.broker)
    refused = dramatiq.group([actor.message("lost"), unknown.message()], broker=actor.broker)
    with pytest.raises(UnknownActorError), actor.broker.transaction():
        refused.run()
    with pytest.raises(SendError, match="no message of the transaction is sent"), actor.broker.transaction():
        send_despite_a_refusal(actor, unknown)
    with pytest.raises(TypeError, match="NoneType"), actor.broker.transaction(None):
        actor.send("lost")
    assert words(database) == []
    with actor.broker.transaction():
        dramatiq.group([actor.message("a"), actor.message("b")], broker=actor.broker).run()
        assert words(database) == []
    assert sorted(words(database)) == ["a", "b"]


def test_forked_process_opens_a_connection_of_its_own(actor: Any, database: Database) -> None:
    """A shared socket would mix the answers of both processes."""
    actor.send("parent")
    sessions = text("SELECT pid FROM pg_stat_activity WHERE pid = :pid")
    sender = actor.broker.sender
    server_process = sender.run(lambda execute: execute("SELECT pg_backend_pid()", ()))
    reader, writer = os.pipe()
    if (process := os.fork()) == 0:  # only this test's statements run in the child
        try:
            own = sender.run(lambda execute: execute("SELECT pg_backend_pid()", ()))
            sender.close()
            os.write(writer, str(own[0]).encode())
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    os.close(writer)
    assert os.read(reader, 100) not in {b"", str(server_process[0]).encode()}
    os.close(reader)
    assert database.fetch(sessions, {"pid": server_process[0]}), "the child has ended its parent's session"
    actor.send("parent again")
    assert words(database) == ["parent", "parent again"]


@pytest.mark.parametrize("connect", [psycopg.connect, psycopg2.connect])
def test_transaction_of_psycopg(actor: Any, database: Database, database_url: str, connect: Any) -> None:
    connection = connect(database_url)
    with actor.broker.transaction(connection):
        actor.send("lost")
        connection.rollback()
        actor.send("kept")
    assert words(database) == []
    connection.commit()
    connection.close()
    assert words(database) == ["kept"]


@pytest.mark.parametrize("factory", [scalar_row, dict_row, tuple_row], ids=["scalar", "dict", "tuple"])
def test_rows_of_a_connection_may_have_any_form(
    actor: Any, database: Database, database_url: str, factory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "task_executor_dramatiq")
    with psycopg.connect(database_url, row_factory=factory) as connection, actor.broker.transaction(connection):
        message = actor.send("once")
        assert caplog.messages == []
        actor.broker.enqueue(message)
    assert words(database) == ["once"]
    (line,) = caplog.messages
    assert message.message_id in line


def test_transaction_of_sqlalchemy(actor: Any, database: Database, database_url: str) -> None:
    engine = create_engine(parse_url(database_url))
    with Session(engine) as session, actor.broker.transaction(session):
        actor.send("lost")
        session.rollback()
        actor.send("by a session")
        session.commit()
    with engine.connect() as connection, actor.broker.transaction(connection):
        actor.send("by a connection")
        connection.commit()
    engine.dispose()
    assert words(database) == ["by a session", "by a connection"]


AUTOCOMMIT = "begin a transaction first"


@pytest.mark.parametrize("connect", [psycopg.connect, psycopg2.connect])
def test_connection_of_psycopg_that_commits_each_statement_is_refused(
    actor: Any, database: Database, database_url: str, connect: Any
) -> None:
    connection = connect(database_url)
    connection.autocommit = True
    with pytest.raises(SendError, match=AUTOCOMMIT), actor.broker.transaction(connection):
        actor.send("lost")
    assert words(database) == []
    block = connection.transaction() if connect is psycopg.connect else connection
    with block, actor.broker.transaction(connection):
        actor.send("kept")
        assert words(database) == []
    connection.close()
    assert words(database) == ["kept"]


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgresql+psycopg2"])
def test_connection_of_sqlalchemy_that_commits_each_statement_is_refused(
    actor: Any, database: Database, database_url: str, driver: str
) -> None:
    engine = create_engine(parse_url(database_url).set(drivername=driver), isolation_level="AUTOCOMMIT")
    for open_one in (engine.connect, partial(Session, engine)):
        with open_one() as one, pytest.raises(SendError, match="AUTOCOMMIT"), actor.broker.transaction(one):
            actor.send("lost")
    engine.dispose()
    assert words(database) == []


def test_connection_of_django_outside_atomic_is_refused(actor: Any, database: Database, database_url: str) -> None:
    with connected(ALIAS, database_url):
        with pytest.raises(SendError, match=AUTOCOMMIT), actor.broker.transaction(connections[ALIAS]):
            actor.send("lost")
        with transaction.atomic(using=ALIAS), actor.broker.transaction(connections[ALIAS]):
            actor.send("kept")
    assert words(database) == ["kept"]


@each_case("kind", [psycopg.AsyncConnection, AsyncConnection, AsyncSession])
def test_asynchronous_connection_is_refused(actor: Any, kind: Any) -> None:
    with (
        pytest.raises(TypeError, match="is asynchronous"),
        actor.broker.transaction(SimpleNamespace(execute=kind.execute)),
    ):
        pass


def test_every_message_in_atomic_joins_django(actor: Any, database: Database, database_url: str) -> None:
    with connected(ALIAS, database_url):
        actor.broker.join_django(ALIAS)
        with transaction.atomic(using=ALIAS):
            actor.send("lost")
            transaction.set_rollback(True, using=ALIAS)
        with transaction.atomic(using=ALIAS):
            actor.send("kept")
            assert words(database) == []
        assert words(database) == ["kept"]
        actor.send("outside")
    assert words(database) == ["kept", "outside"]


def test_revocation_before_the_commit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API does not show the message yet; to return would let it run after the commit."""
    monkeypatch.setattr(HttpSender, "ask", lambda *_args, **_kwargs: {"items": []})
    broker = TaskExecutorBroker(url="http://api.invalid", key="k")
    task = dramatiq.actor(lambda: None, actor_name="note", broker=broker, actor_class=CeleryActor)
    with pytest.raises(MissingExecutionError, match="cancel it after the commit"):
        task.AsyncResult("m-1").revoke()


@each_case(
    "url",
    [
        *("postgresql+psycopg://app:hunter2@db/te", "postgresql://app:hunter2@[::1/te", "redis://app:hunter2@db"),
        *("postgresql://app:hunter2%zz@db/te", "https://app:hunter2@te.example.com"),
    ],
)
def test_refused_url_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: ") as caught:
        TaskExecutorBroker(url=url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@each_case(
    ("url", "names"),
    [
        ("postgresql://app:hunter2@db/te?newer=hunter2&sslmode=require", ": newer, sslmode"),
        ("postgresql://app@db/te?newer=hunter2&hunter2", ": newer"),
        ("postgresql://app@db/te?newer=hunter2&password=a&hunter2=b", ""),
        ("postgresql://app:%zz?hunter2=b@db/te", ""),
        ("host=db newer=hunter2 password=pass?hunter2=b", ""),
    ],
)
def test_refused_url_names_its_options_unless_they_may_be_parts_of_a_password(url: str, names: str) -> None:
    """An option may be newer than the installed driver."""
    with pytest.raises(ValueError, match=r"^url: ") as caught:
        TaskExecutorBroker(url=url)
    assert str(caught.value).endswith(f"or an option in it is unknown to the installed driver{names}")
    assert "hunter2" not in str(caught.value)


class OtherServer(BaseHTTPRequestHandler):
    """Answers like a proxy: with the status and the body that stand in the path of the URL, as in `/200-{}`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, _, body = unquote(self.path.split("/")[1]).partition("-")
        self.send_response(int(status))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST  # noqa: N815 - a name of http.server

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


@contextmanager
def broker_of_another_server(answer: str) -> Iterator[TaskExecutorBroker]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherServer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        broker = TaskExecutorBroker(url=f"http://127.0.0.1:{server.server_port}/{quote(answer, safe='')}", key="k-1")
        yield broker
        broker.close()
        server.shutdown()


@each_case(
    ("answer", "error"),
    [
        ("301", BrokerConnectionError),
        ("308-<p>Moved</p>", BrokerConnectionError),
        ("302-{}", BrokerConnectionError),
        ("200-<p>Sign in</p>", BrokerConnectionError),
        ("201", BrokerConnectionError),
        ("201-[]", BrokerConnectionError),
        ("200-{}", BrokerConnectionError),
        ('201-{"ok":1}', BrokerConnectionError),
        ("503-[]", BrokerConnectionError),
        ('502-{"error":"down"}', BrokerConnectionError),
        ("404-<p>Not found</p>", SendError),
        ('403-{"error":"no"}', SendError),
    ],
)
def test_message_is_not_sent_by_the_answer_of_another_server(answer: str, error: type[Exception]) -> None:
    with broker_of_another_server(answer) as broker:
        sent = dramatiq.actor(lambda: None, actor_name="note", broker=broker)
        with pytest.raises(error):
            sent.send()


@each_case(
    "ask",
    [
        lambda broker, message: broker.cancel(message),
        lambda broker, message: broker.executions.id_of(message.copy(message_id="m-1")),
        lambda broker, message: message.get_result(backend=broker.get_results_backend()),
        lambda broker, message: broker.get_results_backend().status(message),
        lambda broker, message: broker.join(message.queue_name),
        lambda broker, message: broker.flush(message.queue_name),
    ],
)
def test_answer_of_another_server_is_an_error_that_names_its_host(ask: Any) -> None:
    """A captive portal may answer any request with 200 and an object; none of them is a cancellation."""
    with broker_of_another_server("200-{}") as broker:
        sent = dramatiq.actor(lambda: None, actor_name="note", broker=broker, store_results=True)
        with pytest.raises(BrokerConnectionError, match=r"^127\.0\.0\.1:\d+ answered 200: no answer of Task") as caught:
            ask(broker, sent.message().copy(message_id="exec_1"))
    assert "k-1" not in str(caught.value)


def test_api_has_no_transactions() -> None:
    broker = TaskExecutorBroker(url="http://127.0.0.1:9")
    with pytest.raises(TypeError, match="URL of the database"), broker.transaction(None):
        pass
    with pytest.raises(TypeError, match="URL of the database"):
        broker.join_django()


def test_unknown_actor_names_the_remedy(actor: Any) -> None:
    other = dramatiq.actor(lambda: None, actor_name="other", broker=actor.broker)
    with pytest.raises(UnknownActorError, match="start a process with the actor first"):
        other.send()


@each_case("value", [nan, inf, "a\0b", "\ud800"])
def test_value_that_cannot_be_stored_is_no_error_of_the_connection(
    actor: Any, database: Database, database_url: str, value: Any
) -> None:
    with pytest.raises(SendError, match=r"have a value that cannot be stored: NaN"):
        actor.send(value)
    if isinstance(value, str):
        with pytest.raises(SendError, match="cannot be stored"):
            actor.broker.enqueue(actor.message("a").copy(message_id=value))
    with psycopg2.connect(database_url) as connection, actor.broker.transaction(connection):
        with pytest.raises(SendError, match="cannot be stored"):
            actor.send(value)
        connection.rollback()
        actor.send("kept")
    assert words(database)[-1] == "kept"


def test_broker_has_the_middleware_that_it_is_given() -> None:
    assert TaskExecutorBroker(url="http://127.0.0.1:9", middleware=[], results=False).middleware == []
    names = [type(each).__name__ for each in TaskExecutorBroker(url="http://127.0.0.1:9").middleware]
    assert names == [each.__name__ for each in (*default_middleware, Results)]


def test_wrong_connection_is_refused(actor: Any) -> None:
    with pytest.raises(TypeError, match="SQLAlchemy, psycopg or Django"), actor.broker.transaction(object()):
        pass


@pytest.fixture
def celery_actor(actor: Any) -> CeleryActor:
    del actor.broker.actors["note"]
    found: CeleryActor = dramatiq.actor(
        lambda word: None, actor_name="note", broker=actor.broker, actor_class=CeleryActor
    )
    return found


def test_celery_style_sends_with_delay_expiry_and_id(celery_actor: CeleryActor, database: Database) -> None:
    sent = [
        celery_actor.delay("a"),
        celery_actor.apply_async(["b"], countdown=60, expires=90, task_id="t-1"),
        celery_actor.apply_async(kwargs={"word": "c"}, eta=datetime.now(UTC) + timedelta(hours=1)),
    ]
    assert celery_actor.apply_async(["again"], task_id="t-1").id == "t-1"
    found = text("SELECT idempotency_key, input, run_at - created_at AS wait FROM jobs ORDER BY created_at, job_id")
    first, second, third = database.fetch(found)
    assert [row.idempotency_key for row in (first, second, third)] == [each.id for each in sent]
    assert (first.wait, second.input["args"], second.input["options"]["max_age"]) == (None, ["b"], 90_000)
    assert second.wait == timedelta(seconds=60)
    assert timedelta(minutes=59) < third.wait < timedelta(minutes=61)
    assert third.input["kwargs"] == {"word": "c"}


def test_celery_style_takes_no_arguments_as_none_and_a_uuid_as_id(
    celery_actor: CeleryActor, database: Database
) -> None:
    task_id = uuid4()
    sent = celery_actor.apply_async(None, {"word": "a"}, task_id=task_id)
    assert sent.id == celery_actor.AsyncResult(task_id).id == str(task_id)
    (job,) = database.fetch(text("SELECT idempotency_key, input FROM jobs"))
    assert (job.idempotency_key, job.input["args"], job.input["kwargs"]) == (str(task_id), [], {"word": "a"})


def test_celery_style_runs_a_greater_priority_earlier(celery_actor: CeleryActor, database: Database) -> None:
    for priority in (None, 9, -9):
        celery_actor.apply_async(["a"], priority=priority)
    found = database.fetch(text("SELECT priority FROM jobs ORDER BY created_at, job_id"))
    assert [job.priority for job in found] == [None, 137, 119]


def test_celery_style_refuses_ambiguous_times(celery_actor: CeleryActor) -> None:
    with pytest.raises(ValueError, match="give one of them"):
        celery_actor.apply_async(["x"], countdown=1, eta=datetime.now(UTC))
    with pytest.raises(ValueError, match="has a time zone"):
        celery_actor.apply_async(["x"], eta=datetime(2030, 1, 1))  # noqa: DTZ001 - the error is the test


def test_celery_style_makes_stages_of_pipelines(celery_actor: CeleryActor) -> None:
    pipe = celery_actor.s("a") | celery_actor.si("b")
    assert [message.args for message in pipe.messages] == [("a",), ("b",)]
    assert pipe.messages[1].options["pipe_ignore"] is True
