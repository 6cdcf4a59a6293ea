"""The order of events: what commits late is not passed over."""

import secrets
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy import make_url, text

from app.features.events import store as events_store
from app.features.events.event import GROUPS, EventKind, EventPosition
from app.kernel import db
from app.kernel.audit import SYSTEM, AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.jobs import enqueue_settings
from tests import rows
from tests.cases import each_case
from tests.waiting import eventually


def change(connection: object, name: str) -> None:
    AuditedChange(SYSTEM).record(connection, AuditAction.CREATE, ResourceType.CONFIG, name)  # type: ignore[arg-type]


def behind(database: Database, place: EventPosition) -> tuple[list[str | None], EventPosition]:
    """Read all that there is now, in small pages."""
    found: list[str | None] = []
    until = events_store.horizon(database)
    while True:
        page = events_store.read(database, place, until, GROUPS, limit=2)
        found += [event.subject for event in page.events]
        place = page.up_to
        if page.is_end:
            return found, place


def test_what_commits_late_is_read_before_what_began_later(database: Database) -> None:
    """A reader that asks all the time sees both, in the order of their beginnings, and each once."""
    seen: list[str | None] = []
    with database.engine.connect() as slow, slow.begin():
        change(slow, "slow")
        database.transact(lambda connection: change(connection, "quick"))
        database.fetch(text("SELECT pg_sleep(1.5)"))  # until quick ones would have been read without the slow one
        database.transact(lambda connection: change(connection, "later"))
        found, place = behind(database, EventPosition(EPOCH))
        seen += found
        assert seen == [], "what began before them is still under way"
    while len(seen) < 3:
        found, place = behind(database, place)
        seen += found
    assert seen == ["slow", "quick", "later"]
    assert eventually(lambda: behind(database, place)[0] == [])


BATCHES, OF_BATCH = 40, 60
ATTEMPTS = """
INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at, created_at, led_to)
SELECT 'att_' || md5(CAST(n AS TEXT)), :execution_id, n, 'FAILED', now(), now() - (n / :size) * INTERVAL '1 second',
       'RETRYING'
  FROM generate_series(1, :count) AS n RETURNING attempt_id
"""


def test_those_of_one_instant_are_read_page_by_page_and_by_the_index(database: Database) -> None:
    execution_id = rows.add_executions(database, 1)[0]
    given = {"execution_id": execution_id, "size": OF_BATCH, "count": BATCHES * OF_BATCH}
    database.fetch(text(ATTEMPTS), given)
    database.fetch(text("ANALYZE"))
    until, place, keys = events_store.horizon(database) + timedelta(minutes=1), EventPosition(EPOCH), []
    while True:
        page = events_store.read(database, place, until, {"attempt"}, limit=OF_BATCH - 1)
        keys += [(event.at, event.place.key) for event in page.events]
        place = page.up_to
        if page.is_end:
            break
    assert keys == sorted(set(keys))
    assert len(keys) == BATCHES * OF_BATCH
    if not database.is_cockroach:
        middle = EventPosition(keys[len(keys) // 2][0])
        params = events_store.params_of(middle, until, GROUPS, limit=50)
        plan = "\n".join(line[0] for line in database.fetch(text(f"EXPLAIN {events_store.PAGE_OF_EVENTS}"), params))
        assert "using idx_attempts_created" in plan
        assert "Incremental Sort" in plan, "a batch at a time, not all that follows"


@pytest.mark.postgresql_only
def test_a_long_transaction_that_enqueues_is_waited_for_and_no_other(database: Database) -> None:
    """On the clock of its own that the reader has, ten minutes less a bit have passed since they began."""
    enqueue_settings.adopt(database, shards=1, look_ahead_ms=5000)
    with database.engine.connect() as reads, database.engine.connect() as dumps, database.engine.connect() as caller:
        reads.execute(text("CREATE SCHEMA ahead"))
        reads.execute(
            text(
                "CREATE FUNCTION ahead.now() RETURNS TIMESTAMPTZ LANGUAGE sql AS "
                "$$ SELECT pg_catalog.clock_timestamp() + INTERVAL '590 seconds' $$"
            )
        )
        reads.commit()
        reads.execute(text("SET search_path = ahead, pg_catalog, public"))
        reads.commit()
        dumps.execute(text("LOCK TABLE jobs IN ACCESS SHARE MODE"))
        began = caller.execute(text("SELECT now() FROM te_enqueue('target')")).scalar_one()

        def horizon() -> datetime:
            found: datetime = reads.execute(events_store.HORIZON).scalar_one()
            reads.commit()
            return found

        assert horizon() < began
        caller.commit()
        assert horizon() > began + timedelta(seconds=500)


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
            late = timedelta(seconds=events_store.LONGEST_TRANSACTION_SECONDS / 2)
            assert rows.database_now(database) - events_store.horizon(hidden_from) < late
            connection.execute(text("SELECT 1"))
            assert rows.database_now(database) - events_store.horizon(hidden_from) > late
            connection.commit()
            assert rows.database_now(database) - events_store.horizon(hidden_from) < late
        connection.execute(text(f"DROP ROLE {role}"))
        connection.commit()


@each_case("text_", ["", "x", "1-z-key", "1-a-", "1-a-k'", "99999999999999999", "-1", "1-a-é"])
def test_only_places_are_read_as_such(text_: str) -> None:
    assert EventPosition.parse(text_) is None


def test_a_place_is_read_as_it_is_written(database: Database) -> None:
    database.transact(lambda connection: change(connection, "x"))
    (event,) = eventually(
        lambda: events_store.read(database, EventPosition(EPOCH), events_store.horizon(database), GROUPS).events
    )
    assert EventPosition.parse(str(event.place)) == event.place
    assert event.kind is EventKind.CATALOGUE_CHANGED
