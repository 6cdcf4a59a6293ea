"""The order of events: what commits late is not passed over."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app import audit, ids
from app.audit import SYSTEM, Action, ResourceType
from app.db import Database
from app.events import GROUPS, EventKind, reading
from app.events.place import Place
from app.formats import EPOCH
from tests import rows
from tests.waiting import eventually


def change(connection: object, name: str) -> None:
    audit.record(
        connection,  # type: ignore[arg-type]
        ids.audit_id(),
        by=SYSTEM,
        action=Action.CREATE,
        resource_type=ResourceType.CONFIG,
        resource=name,
    )


def behind(database: Database, place: Place) -> tuple[list[str | None], Place]:
    """Read all that there is now, in small pages."""
    found: list[str | None] = []
    until = reading.horizon(database)
    while True:
        page = reading.read(database, place, until, GROUPS, limit=2)
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
        found, place = behind(database, Place(EPOCH))
        seen += found
        assert seen == [], "what began before them is still under way"
    while len(seen) < 3:
        found, place = behind(database, place)
        seen += found
    assert seen == ["slow", "quick", "later"]
    assert eventually(lambda: behind(database, place)[0] == [])


def test_a_session_that_only_dumps_holds_nothing_up_for_ever(database: Database) -> None:
    now = rows.database_now(database)
    assert now - reading.horizon(database) < timedelta(seconds=reading.LONGEST_TRANSACTION_SECONDS)


@pytest.mark.parametrize("text_", ["", "x", "1-z-key", "1-a-", "1-a-k'", "99999999999999999", "-1", "1-a-é"])
def test_only_places_are_read_as_such(text_: str) -> None:
    assert Place.parse(text_) is None


def test_a_place_is_read_as_it_is_written(database: Database) -> None:
    database.transact(lambda connection: change(connection, "x"))
    (event,) = eventually(lambda: reading.read(database, Place(EPOCH), reading.horizon(database), GROUPS).events)
    assert Place.parse(event.event_id) == event.place
    assert event.kind is EventKind.CATALOGUE_CHANGED
