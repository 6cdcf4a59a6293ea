"""Grants of te_enqueue: a role creates jobs of the endpoints that te_grants names."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from task_executor_client.transaction import EnqueueError, enqueue, send

from app.kernel.access import enqueue_grants
from app.kernel.access.enqueue_grants import EnqueueGrant, LastGrantError
from app.kernel.audit import Actor
from app.kernel.db import Database
from app.kernel.name_patterns import matches
from tests.enqueue_caller import ENDPOINTS, Caller, calling
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql_only


@pytest.fixture
def caller(database: Database, database_url: str) -> Iterator[Caller]:
    with calling(database, database_url) as caller:
        yield caller


def test_without_grants_every_endpoint_is_open(caller: Caller) -> None:
    assert caller.reached() == {*ENDPOINTS}


@pytest.mark.parametrize("pattern", ["mail-*", "mail?now", "mail_now", "*", "pay", "p*y", "???", "nothing"])
def test_grant_opens_the_endpoints_that_match_as_those_of_a_scope(caller: Caller, pattern: str) -> None:
    caller.grant(caller.name, pattern)
    assert caller.reached() == {name for name in ENDPOINTS if matches(pattern, name)}


def test_grant_of_a_group_holds_for_its_members(caller: Caller) -> None:
    caller.grant(caller.group, "pay")
    assert caller.reached() == {"pay"}


def test_grants_of_others_open_nothing(caller: Caller) -> None:
    caller.grant("no_such_role", "*")
    assert caller.reached() == set()


def test_refusal_names_the_role_and_the_grant(caller: Caller) -> None:
    caller.grant(caller.name, "mail-*")
    with caller.connection() as connection, pytest.raises(EnqueueError, match="'pay'") as refused:
        enqueue(connection, "pay")
    assert caller.name in str(refused.value)


def test_known_key_of_another_endpoint_is_refused(caller: Caller, database_url: str) -> None:
    with closing(psycopg2.connect(database_url)) as owner:
        enqueue(owner, "pay", idempotency_key="k")
        owner.commit()
    caller.grant(caller.name, "mail-*")
    with caller.connection() as connection, pytest.raises(EnqueueError, match="te_grants"):
        enqueue(connection, "pay", idempotency_key="k")


def test_owner_needs_no_grant(caller: Caller, database_url: str) -> None:
    caller.grant(caller.name, "mail-*")
    with closing(psycopg2.connect(database_url)) as owner:
        assert enqueue(owner, "pay").is_new


def test_jobs_with_a_url_need_the_privilege_of_te_send_only(caller: Caller) -> None:
    caller.grant(caller.name, "mail-*")
    caller.run(f"GRANT EXECUTE ON FUNCTION te_send TO {caller.name}")
    with caller.connection() as connection:
        assert send(connection, "https://receiver.example", {}).is_new
    inline = caller.inline_endpoint()
    caller.run(f"REVOKE EXECUTE ON FUNCTION te_send FROM {caller.name}")
    with caller.connection() as connection, pytest.raises(EnqueueError, match="te_grants"):
        enqueue(connection, inline)


def test_group_whose_role_must_be_set_sends_jobs_with_a_url(caller: Caller) -> None:
    caller.grant(caller.name, "mail-*")
    caller.run(f"REVOKE {caller.group} FROM {caller.name}; ALTER ROLE {caller.name} NOINHERIT")
    caller.run(f"GRANT {caller.group} TO {caller.name}; GRANT EXECUTE ON FUNCTION te_send TO {caller.group}")
    with caller.connection() as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"SET ROLE {caller.group}")
        assert send(connection, "https://receiver.example", {}).is_new


def test_pattern_is_one_of_names(caller: Caller) -> None:
    with pytest.raises(IntegrityError, match="chk_te_grants_pattern"):
        caller.grant(caller.name, "Mail%")


def test_second_of_two_removals_at_once_is_refused_as_the_last(
    caller: Caller, database: Database, database_url: str
) -> None:
    caller.grant(caller.name, "mail-*")
    caller.grant(caller.name, "pay")
    last, by = EnqueueGrant(caller.name, "pay"), Actor("operator")
    with closing(psycopg2.connect(database_url)) as first, ThreadPoolExecutor(1) as pool:
        with first.cursor() as cursor:
            cursor.execute("DELETE FROM te_grants WHERE pattern = 'mail-*'")
        second = pool.submit(enqueue_grants.remove, database, last, by=by, may_be_last=False)
        waiting = text(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        eventually(lambda: second.done() or database.fetch(waiting))
        first.commit()
        with pytest.raises(LastGrantError):
            second.result()
    assert enqueue_grants.list_grants(database) == [last]
    assert enqueue_grants.remove(database, last, by=by, may_be_last=True)
