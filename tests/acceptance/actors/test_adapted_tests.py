"""Claims of Dramatiq's tests that read queues of its brokers, adapted: rows are read instead.

`dramatiq_suite/exceptions.txt` says which test of Dramatiq each of them adapts, and why.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker
from dramatiq.encoder import JSONEncoder
from dramatiq.errors import BrokerConnectionError
from sqlalchemy import text
from task_executor_dramatiq import TaskExecutorBroker

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import Trial, User, trial_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def user(shared_user: User) -> User:
    """A user with a web process, a scheduler and a worker; the tests run the actors themselves."""
    shared_user.stack.web()
    shared_user.stack.scheduler()
    shared_user.worker()
    return shared_user


@pytest.fixture
def trial(user: User, shared_database: Database) -> Trial:
    return trial_of(user, shared_database)


@pytest.fixture
def broker(user: User, module_database_url: str) -> Iterator[TaskExecutorBroker]:
    broker = TaskExecutorBroker(url=module_database_url, worker=user.env["TASK_EXECUTOR_ACTORS"])
    dramatiq.set_broker(broker)
    yield broker
    broker.close()
    dramatiq.set_broker(None)


@contextmanager
def at_work(broker: TaskExecutorBroker, *, threads: int = 8, prefetch: int = 0) -> Iterator[Worker]:
    """Run the actors of a broker in this process."""
    worker = Worker(broker, worker_timeout=100, worker_threads=threads)
    worker.queue_prefetch = prefetch or worker.queue_prefetch
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def test_delayed_message_waits_in_the_service_when_its_process_stops(broker: TaskExecutorBroker, trial: Trial) -> None:
    @dramatiq.actor
    def wait_for_later() -> None:
        pass

    wait_for_later.send_with_options(delay=60_000)
    with at_work(broker):
        assert trial.statuses() in ({"PENDING": 1}, {"QUEUED": 1})
    (execution,) = trial.executions_of("wait-for-later")
    assert (execution.completed_at, execution.attempt_count) == (None, 0)


def test_join_waits_for_a_delayed_message_that_a_message_sends(broker: TaskExecutorBroker, trial: Trial) -> None:
    """At no instant is the queue empty in between: the second is written before the first ends."""

    @dramatiq.actor
    def go() -> None:
        go_again.send_with_options(delay=300)

    @dramatiq.actor
    def go_again() -> None:
        pass

    with at_work(broker):
        go.send()
        broker.join(go.queue_name, timeout=30_000)
    assert trial.statuses() == {"SUCCESS": 2}


def test_new_broker_opens_no_connection_until_it_sends(trial: Trial) -> None:
    broker = TaskExecutorBroker(url="postgresql://nobody@127.0.0.1:1/none", worker="unix:/nowhere")

    @dramatiq.actor(broker=broker)
    def idle() -> None:
        pass

    assert broker.get_declared_actors() == {"idle"}
    with pytest.raises(BrokerConnectionError):
        idle.send()
    broker.close()
    broker.close()
    assert trial.statuses() == {}


def test_message_is_sent_after_the_connection_of_the_sender_broke(broker: TaskExecutorBroker, trial: Trial) -> None:
    @dramatiq.actor
    def do_nothing() -> None:
        pass

    with at_work(broker):
        do_nothing.send()
        ended = text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE '%te_enqueue(%' AND pid <> pg_backend_pid()"
        )
        assert trial.database.fetch(ended), "the connection of the sender was not found"
        do_nothing.send()
        broker.join(do_nothing.queue_name, timeout=30_000)
    assert trial.statuses() == {"SUCCESS": 2}


@pytest.mark.parametrize("fails", [False, True])
def test_outcome_arrives_after_the_connection_to_the_worker_broke(
    broker: TaskExecutorBroker, trial: Trial, *, fails: bool
) -> None:
    broken = threading.Event()

    @dramatiq.actor(max_retries=0)
    def end_without_connection() -> None:
        assert broken.wait(30)
        if fails:
            raise RuntimeError("failed")

    with at_work(broker):
        end_without_connection.send()
        eventually(lambda: trial.statuses() == {"RUNNING": 1})
        connection = broker._links._connection  # noqa: SLF001 - no user breaks it on purpose
        assert connection
        connection.interrupt()
        broken.set()
        eventually(lambda: trial.statuses() == {"FAILED" if fails else "SUCCESS": 1})
    (execution,) = trial.executions_of("end-without-connection")
    assert execution.attempt_count == 1


def test_message_of_a_greater_broker_priority_runs_first(broker: TaskExecutorBroker, trial: Trial) -> None:
    order: list[int] = []

    @dramatiq.actor(queue_name="prioritized")
    def note_priority(priority: int) -> None:
        order.append(priority)

    for priority in range(10):
        note_priority.send_with_options(args=(priority,), broker_priority=priority)
    with at_work(broker, threads=1, prefetch=1):
        broker.join("prioritized", timeout=30_000)
    assert order == [*reversed(range(10))]
    assert trial.statuses() == {"SUCCESS": 10}


def test_actor_with_the_smallest_priority_runs_first(
    broker: TaskExecutorBroker, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dramatiq.worker, "QUEUE_PREFETCH", 20)
    order: list[str] = []

    with at_work(broker, threads=1) as worker:
        worker.pause()

        @dramatiq.actor(priority=0)
        def be_first() -> None:
            order.append("first")

        @dramatiq.actor(priority=10)
        def be_last() -> None:
            order.append("last")

        for _ in range(10):
            be_last.send()
            be_first.send()
        eventually(lambda: worker.work_queue.qsize() == 20)
        worker.resume()
        broker.join(be_last.queue_name, timeout=30_000)
    assert order == ["first"] * 10 + ["last"] * 10
    assert trial.statuses() == {"SUCCESS": 20}


class _RefusingEncoder(JSONEncoder):
    def decode(self, data: bytes) -> Any:
        if b"undecodable" in data:
            raise RuntimeError("no message")
        return super().decode(data)


def test_undecodable_message_is_a_dead_letter(broker: TaskExecutorBroker, trial: Trial) -> None:
    @dramatiq.actor(max_retries=0)
    def take(_word: str) -> None:
        pass

    usual = dramatiq.get_encoder()
    dramatiq.set_encoder(_RefusingEncoder())
    try:
        with at_work(broker):
            take.send("undecodable")
            broker.join(take.queue_name, timeout=30_000)
    finally:
        dramatiq.set_encoder(usual)
    (execution,) = trial.executions_of("take")
    (attempt,) = rows.attempts(trial.database, execution.execution_id)
    assert (execution.status, attempt.error["category"]) == ("FAILED", "MALFORMED")
    letters = text("SELECT error_type FROM dead_letters WHERE endpoint = 'take'")
    eventually(lambda: [row.error_type for row in trial.database.fetch(letters)] == ["dramatiq.errors.DecodeError"])


def test_messages_run_in_the_order_in_which_they_were_sent(broker: TaskExecutorBroker, trial: Trial) -> None:
    order: list[int] = []

    @dramatiq.actor
    def note_number(number: int) -> None:
        order.append(number)

    for number in range(5):
        note_number.send(number)
    with at_work(broker, threads=1, prefetch=10):
        broker.join(note_number.queue_name, timeout=30_000)
    assert order == [0, 1, 2, 3, 4]
    assert trial.statuses() == {"SUCCESS": 5}


@pytest.mark.parametrize("name", ["min_backoff", "max_backoff"])
@pytest.mark.parametrize("is_of_the_message", [False, True])
def test_retries_without_backoff_follow_at_once(
    broker: TaskExecutorBroker, trial: Trial, *, name: str, is_of_the_message: bool
) -> None:
    tries: list[int] = []
    options: dict[str, Any] = {name: 0}

    @dramatiq.actor(max_retries=10, **({} if is_of_the_message else options))
    def fail() -> None:
        tries.append(1)
        raise RuntimeError("failed")

    with at_work(broker):
        fail.send_with_options(**(options if is_of_the_message else {}))
        broker.join(fail.queue_name, timeout=30_000)
    assert len(tries) == 11
    (execution,) = trial.executions_of("fail")
    waits = [each.error["options"] for each in rows.attempts(trial.database, execution.execution_id)[:10]]
    assert [wait["retries"] for wait in waits] == [*range(1, 11)]


def test_flush_cancels_waiting_messages(
    user: User, broker: TaskExecutorBroker, module_database_url: str, trial: Trial
) -> None:
    key = api_keys.create(trial.database, "flush", [Scope.ADMIN], None)
    by_api = TaskExecutorBroker(
        url=module_database_url, worker=user.env["TASK_EXECUTOR_ACTORS"], api=(user.stack.url, key)
    )

    @dramatiq.actor(broker=by_api)
    def never() -> None:
        pass

    @dramatiq.actor(broker=by_api, queue_name="kept")
    def kept() -> None:
        pass

    never.send()
    never.send_with_options(delay=60_000)
    kept.send()
    with pytest.raises(dramatiq.QueueJoinTimeout):
        by_api.join("default", timeout=0)
    by_api.flush("default")
    by_api.join("default", timeout=0)
    assert trial.statuses() == {"CANCELLED": 2, "QUEUED": 1}
    by_api.flush_all()
    assert trial.statuses() == {"CANCELLED": 3}
    with pytest.raises(dramatiq.QueueNotFound):
        by_api.flush("undeclared")
    broker.declare_queue("x")
    with pytest.raises(TypeError, match="give the broker the API"):
        broker.flush("x")
    by_api.close()
