"""Order of events: an event that commits late is not skipped."""

import re
import secrets
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy import TextClause, make_url, text

from app.features.events import store as events_store
from app.features.events.event import GROUPS, EventKind, EventPosition
from app.kernel import db
from app.kernel.audit import SYSTEM, AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.reading.horizon import HORIZON, LONGEST_TRANSACTION_SECONDS, OF_SERVICE, horizon
from tests import rows
from tests.cases import each_case
from tests.enqueueing import adopt_settings
from tests.waiting import eventually


def change(connection: object, name: str) -> None:
    AuditedChange(SYSTEM).record(connection, AuditAction.CREATE, ResourceType.CONFIG, name)  # type: ignore[arg-type]


def events_after(database: Database, position: EventPosition) -> tuple[list[str | None], EventPosition]:
    """Read all events after a position, in small pages."""
    found: list[str | None] = []
    until = horizon(database)
    while True:
        page = events_store.read(database, position, until, GROUPS, limit=2)
        found += [event.subject for event in page.events]
        position = page.up_to
        if page.is_end:
            return found, position


def test_event_that_commits_late_is_read_before_events_of_later_transactions(database: Database) -> None:
    """A reader that polls all the time reads each event once, in the order in which the transactions began."""
    seen: list[str | None] = []
    with database.engine.connect() as slow, slow.begin():
        change(slow, "slow")
        database.transact(lambda connection: change(connection, "quick"))
        database.fetch(text("SELECT pg_sleep(1.5)"))  # until quick events would have been read without the slow event
        database.transact(lambda connection: change(connection, "later"))
        found, position = events_after(database, EventPosition(EPOCH))
        seen += found
        assert seen == [], "an earlier transaction is still open"
    while len(seen) < 3:
        found, position = events_after(database, position)
        seen += found
    assert seen == ["slow", "quick", "later"]
    assert eventually(lambda: events_after(database, position)[0] == [])


BATCHES, BATCH_SIZE = 40, 60
FAILED = """
INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at, created_at, led_to)
SELECT 'att_' || md5(CAST(n AS TEXT)), :execution_id, n, 'FAILED', now(),
       CAST(:at AS TIMESTAMPTZ) - (n % :batches) * INTERVAL '1 second', 'RETRYING'
  FROM generate_series(1, :count) AS n RETURNING attempt_id
"""
SUCCEEDED = """
UPDATE executions AS e
   SET status = 'SUCCESS', attempt_count = 1, completed_at = now(),
       recorded_at = CAST(:at AS TIMESTAMPTZ) - (u.n % :batches) * INTERVAL '1 second'
  FROM unnest(CAST(:ids AS TEXT[])) WITH ORDINALITY AS u (execution_id, n)
 WHERE e.execution_id = u.execution_id RETURNING e.execution_id
"""


def test_events_of_one_instant_are_read_page_by_page_and_by_the_index(database: Database) -> None:
    """Each instant has failed attempts, and successes without a row in `attempts`."""
    execution_id, *succeeded = rows.add_executions(database, 1 + BATCHES * BATCH_SIZE // 2)
    batches = {"at": rows.database_now(database), "batches": BATCHES}
    database.fetch(text(FAILED), batches | {"execution_id": execution_id, "count": BATCHES * BATCH_SIZE // 2})
    database.fetch(text(SUCCEEDED), batches | {"ids": succeeded})
    database.fetch(text("ANALYZE"))
    until, position, keys = horizon(database) + timedelta(minutes=1), EventPosition(EPOCH), []
    kinds = Counter[EventKind]()
    while True:
        page = events_store.read(database, position, until, {"attempt"}, limit=BATCH_SIZE - 1)
        keys += [(event.at, event.position.key) for event in page.events]
        kinds.update(event.kind for event in page.events)
        position = page.up_to
        if page.is_end:
            break
    assert keys == sorted(set(keys))
    half = BATCHES * BATCH_SIZE // 2
    assert kinds == {EventKind.ATTEMPT_FAILED: half, EventKind.EXECUTION_SUCCEEDED: half}
    if not database.is_cockroach:
        middle = EventPosition(keys[len(keys) // 2][0])
        params = events_store.params_of(middle, until, GROUPS, limit=50)
        plan = "\n".join(line[0] for line in database.fetch(text(f"EXPLAIN {events_store.PAGE_OF_EVENTS}"), params))
        for index in ("idx_attempts_created", "idx_executions_recorded"):
            assert re.search(f"Incremental Sort[^>]*->  Index Scan using {index}", plan), "sorts all following events"


@pytest.mark.postgresql_only
def test_horizon_waits_for_a_long_transaction_that_enqueues_and_for_no_other(database: Database) -> None:
    """The reader's clock is 590 seconds ahead, so the transactions seem to be almost ten minutes old."""
    adopt_settings(database)
    with database.engine.connect() as reader, database.engine.connect() as dump, database.engine.connect() as client:
        reader.execute(text("CREATE SCHEMA ahead"))
        reader.execute(
            text(
                "CREATE FUNCTION ahead.now() RETURNS TIMESTAMPTZ LANGUAGE sql AS "
                "$$ SELECT pg_catalog.clock_timestamp() + INTERVAL '590 seconds' $$"
            )
        )
        reader.commit()
        reader.execute(text("SET search_path = ahead, pg_catalog, public"))
        reader.commit()
        dump.execute(text("LOCK TABLE jobs IN ACCESS SHARE MODE"))
        began = client.execute(text("SELECT now() FROM te_enqueue('target')")).scalar_one()

        def read(query: TextClause) -> datetime:
            found: datetime = reader.execute(query).scalar_one()
            reader.commit()
            return found

        assert read(HORIZON) < began
        assert read(OF_SERVICE) > began + timedelta(seconds=500), "callers write no attempts"
        client.commit()
        assert read(HORIZON) > began + timedelta(seconds=500)


@pytest.mark.postgresql_only
def test_hidden_sessions_delay_events_only_while_they_are_in_a_transaction(
    database: Database, database_url: str
) -> None:
    role = f"reader_{secrets.token_hex(4)}"
    database.fetch(text("SELECT 1"))
    with database.engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE {role} LOGIN PASSWORD 'x'"))
        connection.commit()
        url = make_url(database_url).set(username=role, password="x")
        with closing(db.connect(url, pool_size=1, application_name="te-test")) as hidden_from:
            late = timedelta(seconds=LONGEST_TRANSACTION_SECONDS / 2)
            assert rows.database_now(database) - horizon(hidden_from) < late
            connection.execute(text("SELECT 1"))
            assert rows.database_now(database) - horizon(hidden_from) > late
            connection.commit()
            assert rows.database_now(database) - horizon(hidden_from) < late
        connection.execute(text(f"DROP ROLE {role}"))
        connection.commit()


@each_case("invalid", ["", "x", "1-z-key", "1-a-", "1-a-k'", "99999999999999999", "-1", "1-a-é"])
def test_invalid_positions_are_rejected(invalid: str) -> None:
    assert EventPosition.parse(invalid) is None


def test_position_is_parsed_from_its_text(database: Database) -> None:
    database.transact(lambda connection: change(connection, "x"))
    (event,) = eventually(lambda: events_store.read(database, EventPosition(EPOCH), horizon(database), GROUPS).events)
    assert EventPosition.parse(str(event.position)) == event.position
    assert event.kind is EventKind.CATALOGUE_CHANGED
