"""Redrives of several letters: each once, in order, at the rate, whoever dies, and no other."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from app.db import Database
from app.errors import ConflictError
from app.executions.reading.dead_letters import LetterFilter
from app.jobs import redrives
from app.jobs.creation import Creator
from app.jobs.redrive_walk import Walker, preview
from app.jobs.redrives import Redrive
from schema.states import RedriveStatus
from tests import rows
from tests.contract.races.racing import WAYS, schedulers
from tests.racing import at_once

EVERYTHING = LetterFilter()
EVENTS = text("SELECT execution_id FROM execution_events WHERE reason = 'RETRIED_BY_HAND' ORDER BY event_id")


def walker(database: Database, who: str = "one", hint: Callable[[str], object] = lambda _queue: None) -> Walker:
    return Walker(Creator(database, shards=1, look_ahead_ms=0), who, hint=hint, stopping=lambda: False)


def begun(database: Database, wanted: LetterFilter = EVERYTHING, *, rate: int = 4, to: str | None = None) -> Redrive:
    return redrives.begin(database, wanted, to_endpoint=to, rate=rate, actor="me")


def add_letters(database: Database, count: int, **values: object) -> list[str]:
    """Let so many executions fail, one after the other; returns their ids."""
    executions = rows.add_executions(database, count)
    for execution_id in executions:
        rows.add_letter(database, execution_id, **values)
    return executions


def test_the_letters_of_a_filter_are_redriven_in_their_order_at_the_rate(database: Database) -> None:
    wanted = LetterFilter(error_type="TIMEOUT", labels={"team": "a"})
    add_letters(database, 2)
    add_letters(database, 2, error_type="TIMEOUT", labels={"team": "b"})
    mine = add_letters(database, 10, error_type="TIMEOUT", labels={"team": "a", "env": "x"})
    seen = preview(database, wanted)
    assert (seen.count, seen.is_complete, [letter.execution_id for letter in seen.sample]) == (10, True, mine)
    redrive = begun(database, wanted)
    later = add_letters(database, 1, error_type="TIMEOUT", labels={"team": "a"})
    one = walker(database)
    assert [one.walk() for _ in range(4)] == [(4, 0), (4, 0), (2, 0), (0, 0)]
    done = redrives.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (RedriveStatus.DONE, 10, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == mine
    assert rows.execution(database, later[0]).status == "FAILED"
    resolved = database.fetch(text("SELECT DISTINCT resolution, resolved_by FROM dead_letters"))
    assert {tuple(row) for row in resolved} == {(None, None), ("REDRIVEN", "me")}


def test_who_goes_on_after_a_death_begins_behind_the_last_letter(database: Database) -> None:
    mine = add_letters(database, 12)
    redrive = begun(database, rate=100)
    told: list[str] = []

    def die(queue: str) -> None:
        told.append(queue)
        if len(told) == 5:
            raise SystemExit

    with pytest.raises(SystemExit):
        walker(database, hint=die).walk()
    other = walker(database, "other")
    assert other.walk() == (0, 0), "it is held for a while"
    assert redrives.get(database, redrive.redrive_id).redriven == 5
    database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
    assert other.walk() == (7, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == mine
    assert redrives.get(database, redrive.redrive_id).redriven == 12


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_of_several_schedulers_one_walks(database: Database, database_url: str, way: str) -> None:
    mine = add_letters(database, 30)
    rows.add_endpoint(database, "other")
    redrive = begun(database, rate=20, to="other")
    with schedulers(database_url, way, 3) as others:
        done = at_once(*(walker(other, str(number)).walk for number, other in enumerate(others)))
        assert sorted(done) == [(0, 0), (0, 0), (20, 0)]
        for number, other in enumerate(others):
            walker(other, str(number)).walk()
    assert redrives.get(database, redrive.redrive_id).redriven == 30
    new = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE endpoint = 'other'"))
    assert new[0].n == len(mine)


def test_it_is_paused_resumed_and_stopped(database: Database) -> None:
    add_letters(database, 10)
    redrive_id = begun(database).redrive_id
    one = walker(database)
    assert one.walk() == (4, 0)
    assert redrives.change(database, redrive_id, RedriveStatus.PAUSED).status is RedriveStatus.PAUSED
    assert one.walk() == (0, 0)
    redrives.change(database, redrive_id, RedriveStatus.RUNNING)
    assert walker(database, "other").walk() == (4, 0)
    for _ in range(2):
        stopped = redrives.change(database, redrive_id, RedriveStatus.STOPPED)
        assert (stopped.status, stopped.redriven, stopped.ended_at is None) == (RedriveStatus.STOPPED, 8, False)
    assert one.walk() == (0, 0)
    with pytest.raises(ConflictError):
        redrives.change(database, redrive_id, RedriveStatus.RUNNING)


def test_a_pause_in_the_middle_leaves_the_letter_that_was_about_to_be_redriven(database: Database) -> None:
    add_letters(database, 10)
    redrive_id = begun(database, rate=100).redrive_id
    told: list[str] = []

    def pause(queue: str) -> None:
        told.append(queue)
        if len(told) == 3:
            redrives.change(database, redrive_id, RedriveStatus.PAUSED)

    assert walker(database, hint=pause).walk() == (3, 0)
    assert rows.statuses(database) == {"FAILED": 7, "QUEUED": 3}


def test_what_cannot_be_redriven_is_counted_and_stays_open(database: Database) -> None:
    mine = add_letters(database, 5)
    job_id = rows.job_of(database, mine[2]).job_id
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE job_id = :id"), {"id": job_id})
    redrive = begun(database, rate=100)
    assert walker(database).walk() == (4, 1)
    done = redrives.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (RedriveStatus.DONE, 4, 1)
    assert job_id in (done.last_refusal or "")
    assert preview(database, EVERYTHING).count == 1
