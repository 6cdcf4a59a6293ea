"""Inboxes of the receiver: one protocol over each store."""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import create_engine
from task_executor_receiver import Delivery, Refused, sql
from task_executor_receiver.redis import RedisInbox
from task_executor_receiver.sql import SqlInbox, is_sqlite

from tests.contract.receiver.deliveries import fail, is_replayed, new_delivery, reason
from tests.contract.receiver.stores import Store, over_django, over_redis, over_sqlalchemy
from tests.racing import at_once


@pytest.fixture(scope="module", params=["sqlalchemy", "django", "redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    match request.param:
        case "sqlalchemy":
            store = over_sqlalchemy(create_engine(request.getfixturevalue("url"), pool_size=20))
        case "django":
            if not os.environ.get("CI"):
                pytest.importorskip("django")
            store = over_django(request.getfixturevalue("url"))
        case "redis":
            store = over_redis(request.getfixturevalue("valkey").url)
        case _:
            store = over_sqlalchemy(create_engine(f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/inbox"))
    yield store
    store.close()


def test_effect_happens_once_and_its_result_is_replayed(store: Store, execution: str) -> None:
    first = store.inbox.process(new_delivery(execution), store.effect)
    assert (first.status, json.loads(first.body), is_replayed(first)) == (200, {"by": 1}, False)
    for attempt in (1, 2):
        again = store.inbox.process(new_delivery(execution, attempt), fail)
        assert (again.status, json.loads(again.body), is_replayed(again)) == (200, {"by": 1}, True)
    assert store.count(execution) == 1


@pytest.mark.parametrize("status", [410, 503])
def test_refused_delivery_has_no_effect_and_may_be_sent_again(store: Store, execution: str, status: int) -> None:
    def refuse(delivery: Delivery, tx: Any) -> None:
        store.effect(delivery, tx)
        raise Refused("not today", status, retry_after=7)

    answer = store.inbox.process(new_delivery(execution), refuse)
    assert (answer.status, answer.headers["Retry-After"]) == (status, "7")
    assert store.count(execution) == 0
    assert not is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
    assert store.count(execution) == 1


@pytest.mark.parametrize("result", [fail, lambda *_: object(), lambda *_: "x" * 20_000, lambda *_: float("nan")])
def test_failed_handler_has_no_effect_and_may_be_retried(store: Store, execution: str, result: Any) -> None:
    def work(delivery: Delivery, tx: Any) -> Any:
        store.effect(delivery, tx)
        return result()

    with pytest.raises((LookupError, ValueError), match=r"handler's"):
        store.inbox.process(new_delivery(execution), work)
    assert store.count(execution) == 0
    assert not is_replayed(store.inbox.process(new_delivery(execution), store.effect))
    assert store.count(execution) == 1


def test_attempt_during_another_attempt_is_answered_busy(store: Store, execution: str) -> None:
    if store.others_wait:
        pytest.skip("one transaction at a time: the inner attempt would wait for the outer transaction")
    seen = []

    def work(delivery: Delivery, tx: Any) -> None:
        others = [new_delivery(execution, 1), new_delivery(execution, 2)]
        seen.extend(map(reason, at_once(*(partial(store.process_elsewhere, other) for other in others))))
        store.effect(delivery, tx)

    assert not is_replayed(store.inbox.process(new_delivery(execution), work))
    assert seen == ["busy", "busy"]
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
    assert store.count(execution) == 1


def test_late_attempt_has_no_effect_after_a_newer_attempt(store: Store, execution: str) -> None:
    with pytest.raises(LookupError):
        store.inbox.process(new_delivery(execution, 3), fail)
    assert reason(store.inbox.process(new_delivery(execution, 2), store.effect)) == "stale"
    assert store.count(execution) == 0
    assert not is_replayed(store.inbox.process(new_delivery(execution, 3), store.effect))
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
    assert store.count(execution) == 1


def test_one_of_several_concurrent_attempts_has_the_effect(store: Store) -> None:
    for _ in range(10):
        execution = f"exec_{secrets.token_hex(8)}"
        deliveries = [new_delivery(execution, attempt) for attempt in (1, 1, 2, 2, 3, 3)]
        answers = at_once(*(partial(store.process_elsewhere, delivery) for delivery in deliveries))
        assert store.count(execution) <= 1
        working = [answer for answer in answers if answer.status == 200 and not is_replayed(answer)]
        assert len(working) == store.count(execution)
        assert {answer.status for answer in answers} <= {200, 409}
        assert store.inbox.process(new_delivery(execution, 3), store.effect).status == 200
        assert store.count(execution) == 1


def test_handler_that_commits_against_the_rules_has_its_effect_once(store: Store, execution: str) -> None:
    if not store.may_commit:
        pytest.skip("a handler cannot commit in this store")

    def work(delivery: Delivery, tx: Any) -> None:
        store.effect(delivery, tx)
        tx.commit()
        raise LookupError

    with pytest.raises(LookupError):
        store.inbox.process(new_delivery(execution), work)
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
    assert store.count(execution) == 1


def test_transaction_with_a_suppressed_error_is_not_answered_as_done(store: Store, execution: str) -> None:
    """PostgreSQL rolls back a transaction with a failed statement, but accepts its COMMIT without an error."""
    inbox = store.inbox
    if not isinstance(inbox, SqlInbox):
        pytest.skip("Redis runs the commands of a transaction at its end")

    def work(delivery: Delivery, tx: Any) -> None:
        store.effect(delivery, tx)
        with contextlib.suppress(Exception):
            inbox._rows(tx, "SELECT no_such_column", {})  # noqa: SLF001 - a failing statement of the handler

    answered = None
    with contextlib.suppress(Exception):
        answered = inbox.process(new_delivery(execution), work).status
    assert (answered == 200) == (store.count(execution) == 1)
    assert inbox.process(new_delivery(execution, 2), store.effect).status == 200
    assert store.count(execution) == 1


def test_prune_deletes_executions_without_recent_attempts_in_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(store.inbox, SqlInbox):
        pytest.skip("Redis expires keys by itself")
    at = {"later": 100}
    monkeypatch.setattr(sql, "time", SimpleNamespace(time=lambda: time.time() + at["later"]))
    store.inbox.prune(timedelta(seconds=1))
    for number in range(5):
        store.inbox.process(new_delivery(f"exec_{number}"), store.effect)
    assert store.inbox.prune() == 0
    assert is_replayed(store.inbox.process(new_delivery("exec_4", 2), store.effect))
    at["later"] = 200
    assert store.inbox.prune(timedelta(seconds=1), batch=2) == 5
    assert not is_replayed(store.inbox.process(new_delivery("exec_4", 2), store.effect))
    at["later"] = 300
    store.inbox.prune(timedelta(seconds=1))


@pytest.mark.parametrize("kept", [timedelta(0), timedelta(days=-1), timedelta(milliseconds=900)])
def test_retention_that_forgets_at_once_is_refused(store: Store, execution: str, kept: timedelta) -> None:
    """Without a memory of executions, each repeated delivery would have its effect again."""
    store.inbox.process(new_delivery(execution), store.effect)
    remember = store.inbox.prune if isinstance(store.inbox, SqlInbox) else partial(RedisInbox, Redis())
    with pytest.raises(ValueError, match=r"^kept: must be at least 1 second, and longer than the service keeps"):
        remember(kept=kept)
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_without_rows_is_refused(store: Store, batch: int) -> None:
    """Such a prune would never end."""
    if not isinstance(store.inbox, SqlInbox):
        pytest.skip("Redis expires keys by itself")
    with pytest.raises(ValueError, match=f"^batch: must be at least 1, not {batch}$"):
        store.inbox.prune(batch=batch)


def test_unsupported_database_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="mysql is not supported: use PostgreSQL, CockroachDB or SQLite"):
        is_sqlite("mysql")
