"""Redrives of several letters: each once, in order, at the rate, whoever dies, and no other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app import db
from app.db import Database
from app.db.paging import PageRequest, Position
from app.errors import ConflictError, UnavailableError
from app.executions.ending.letters import archive
from app.executions.reading.dead_letters import DeadLetter, LetterFilter, page_of_letters
from app.executions.retry import retry_execution
from app.executions.several import Treated
from app.jobs import redrives
from app.jobs import walker as walking
from app.jobs.creation import Creator
from app.jobs.redrive import Anew, redrive
from app.jobs.redrive_walk import RedriveWalk, next_letters
from app.jobs.redrives import REDRIVES, Redrive
from app.jobs.walker import Lap, Place, Walker, preview
from app.jobs.walks import BEGINNING
from schema.states import WalkStatus
from tests import rows
from tests.contract.ending.following import letters
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.races.racing import WAYS, schedulers
from tests.racing import at_once

EVERYTHING = LetterFilter()
EVENTS = text("SELECT execution_id FROM execution_events WHERE reason = 'RETRIED_BY_HAND' ORDER BY event_id")


def walker(
    database: Database,
    who: str = "one",
    hint: Callable[[str], object] = lambda _queue: None,
    *,
    kind: RedriveWalk | None = None,
) -> Walker:
    return Walker(database, [kind or of(database)], who, hint=hint, stopping=lambda: False)


def creator(database: Database) -> Creator:
    return Creator(database, shards=1, look_ahead_ms=0)


def of(database: Database) -> RedriveWalk:
    return RedriveWalk(creator(database))


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
    seen = preview(database, of(database), wanted)
    assert (seen.count, seen.is_complete, [letter.execution_id for letter in seen.sample]) == (10, True, mine)
    redrive = begun(database, wanted)
    later = add_letters(database, 1, error_type="TIMEOUT", labels={"team": "a"})
    one = walker(database)
    assert [one.walk() for _ in range(4)] == [(4, 0), (4, 0), (2, 0), (0, 0)]
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (WalkStatus.DONE, 10, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == mine
    assert rows.execution(database, later[0]).status == "FAILED"
    resolved = database.fetch(text("SELECT DISTINCT resolution, resolved_by FROM dead_letters"))
    assert {tuple(row) for row in resolved} == {(None, None), ("REDRIVEN", "me")}


def test_a_filter_means_the_letters_that_the_list_shows(database: Database) -> None:
    first, mine, last = add_letters(database, 3)
    after, before = (rows.execution(database, each).completed_at for each in (first, last))
    for wanted, meant in (
        (LetterFilter(failed_after=after, failed_before=before), [mine]),
        (LetterFilter(labels={}), [first, mine, last]),
    ):
        shown = page_of_letters(database, wanted, PageRequest()).items
        assert [letter.execution_id for letter in reversed(shown)] == meant, wanted
        assert [letter.execution_id for letter in preview(database, of(database), wanted).sample] == meant, wanted


@pytest.mark.postgresql_only
@pytest.mark.parametrize("wanted", [LetterFilter(endpoint="rare"), LetterFilter(error_type="RARE")])
def test_few_letters_are_read_by_their_index_though_the_statistics_call_them_common(
    database: Database, wanted: LetterFilter
) -> None:
    """By another index in the same order, it would pass over all that failed before."""
    add = """
    INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, error_type, attempt_count,
                              failed_at)
    SELECT 'att_' || n, 'exec_' || n, 'job_' || n, 'rare', 1, 'RARE', 1, now() - n * INTERVAL '1 second'
      FROM generate_series(1, 5000) AS n
    """
    for statement in (add, "ANALYZE dead_letters", "UPDATE dead_letters SET endpoint = 'e', error_type = 'E'"):
        database.fetch(text(statement))
    plans = list[str]()

    def explain(connection: Connection, _cursor: Any, sql: str, params: Any, *_: Any) -> None:
        if "FROM dead_letters" in sql and not sql.startswith("EXPLAIN"):
            plans.extend(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {sql}", params))

    event.listen(database.engine, "before_cursor_execute", explain)
    assert next_letters(database, wanted, BEGINNING, 500) == []
    event.remove(database.engine, "before_cursor_execute", explain)
    assert "Index Scan using idx_dead_letters_open_of_" in "".join(plans), plans


def test_who_goes_on_after_a_death_begins_behind_the_last_letter(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AT_ONCE", 5)
    mine = add_letters(database, 12)
    redrive = begun(database, rate=100)

    def die(_queue: str) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        walker(database, hint=die).walk()
    other = walker(database, "other")
    assert other.walk() == (0, 0), "it is held for a while"
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 5
    database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
    assert other.walk() == (7, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == mine
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 12


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
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 30
    new = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE endpoint = 'other'"))
    assert new[0].n == len(mine)


def test_it_is_paused_resumed_and_stopped(database: Database) -> None:
    add_letters(database, 10)
    redrive_id = begun(database).redrive_id
    one = walker(database)
    assert one.walk() == (4, 0)
    assert REDRIVES.change(database, redrive_id, WalkStatus.PAUSED).status is WalkStatus.PAUSED
    assert one.walk() == (0, 0)
    REDRIVES.change(database, redrive_id, WalkStatus.RUNNING)
    assert walker(database, "other").walk() == (4, 0)
    for _ in range(2):
        stopped = REDRIVES.change(database, redrive_id, WalkStatus.STOPPED)
        assert (stopped.status, stopped.redriven, stopped.ended_at is None) == (WalkStatus.STOPPED, 8, False)
    assert one.walk() == (0, 0)
    with pytest.raises(ConflictError):
        REDRIVES.change(database, redrive_id, WalkStatus.RUNNING)


def test_more_than_have_room_in_a_round_take_turns_and_say_that_they_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "MOST_RUNNING", 1)
    filters = [LetterFilter(error_type="TIMEOUT"), LetterFilter(error_type="HTTP_ERROR")]
    for wanted in filters:
        add_letters(database, 3, error_type=wanted.error_type)
    redrives_ = [begun(database, wanted, rate=1).redrive_id for wanted in filters]

    def seen() -> list[tuple[int, bool]]:
        found = [REDRIVES.get(database, each) for each in redrives_]
        return sorted((each.redriven, each.waits_for_turn) for each in found)

    assert seen() == [(0, True), (0, True)]
    assert walker(database).walk() == (1, 0)
    assert seen() == [(0, True), (1, False)]
    for _ in range(3):
        walker(database).walk()
    assert seen() == [(2, False), (2, False)]
    for status in (WalkStatus.PAUSED, WalkStatus.RUNNING):
        assert REDRIVES.change(database, redrives_[0], status).waits_for_turn is (status is WalkStatus.RUNNING)


def test_a_pause_in_the_middle_leaves_the_letters_that_were_about_to_be_redriven(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AT_ONCE", 3)
    add_letters(database, 10)
    redrive_id = begun(database, rate=100).redrive_id

    def pause(_queue: str) -> None:
        REDRIVES.change(database, redrive_id, WalkStatus.PAUSED)

    assert walker(database, hint=pause).walk() == (3, 0)
    assert rows.statuses(database) == {"FAILED": 7, "QUEUED": 3}


def pause_job_of(database: Database, execution_id: str) -> str:
    job_id: str = rows.job_of(database, execution_id).job_id
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE job_id = :id"), {"id": job_id})
    return job_id


def test_what_cannot_be_redriven_is_counted_and_stays_open(database: Database) -> None:
    mine = add_letters(database, 5)
    job_id = pause_job_of(database, mine[2])
    redrive = begun(database, rate=100)
    assert walker(database).walk() == (4, 1)
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (WalkStatus.DONE, 4, 1)
    assert job_id in (done.last_refusal or "")
    assert preview(database, of(database), EVERYTHING).count == 1


def test_a_new_job_that_is_refused_leaves_those_beside_it_alone(database: Database) -> None:
    mine = add_letters(database, 5)
    rows.add_endpoint(database, "strict")
    spec = (
        """INSERT INTO payload_specs (name, schema_json) VALUES ('of', '{"properties": {"a": {"type": "integer"}}}')"""
    )
    for statement in (spec, "UPDATE endpoints SET payload_spec_ref = 'of' WHERE name = 'strict'"):
        database.fetch(text(statement))
    wrong = """UPDATE jobs SET input = '{"a": "x"}' WHERE job_id = :id"""
    database.fetch(text(wrong), {"id": rows.job_of(database, mine[2]).job_id})
    redrive = begun(database, rate=100, to="strict")
    assert walker(database).walk() == (4, 1)
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (WalkStatus.DONE, 4, 1)
    new = database.fetch(text("SELECT idempotency_key FROM jobs WHERE endpoint = 'strict'"))
    assert len({row.idempotency_key for row in new}) == 4
    resolved = database.fetch(
        text(
            "SELECT d.resolved_by, e.endpoint FROM dead_letters AS d "
            "JOIN executions AS e ON e.execution_id = d.redriven_as"
        )
    )
    assert [tuple(row) for row in resolved] == [("me", "strict")] * 4


def test_what_is_locked_holds_up_no_other_redrive(database: Database, database_url: str) -> None:
    hasty = db.connect(database_url, pool_size=3, application_name="te-hasty", statement_timeout_seconds=0.6)
    (mine,) = add_letters(database, 1, error_type="TIMEOUT")
    add_letters(database, 2, error_type="HTTP_ERROR")
    locked = begun(database, LetterFilter(error_type="TIMEOUT"))
    free = begun(database, LetterFilter(error_type="HTTP_ERROR"))
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": mine})
        with pytest.raises(UnavailableError):
            walker(hasty).walk()
    assert REDRIVES.get(database, free.redrive_id).status is WalkStatus.DONE
    assert walker(hasty).walk() == (1, 0)
    assert REDRIVES.get(database, locked.redrive_id).status is WalkStatus.DONE
    hasty.close()


def test_what_is_not_as_it_should_be_is_counted_and_holds_up_no_other_letter(database: Database) -> None:
    add_letters(database, 3)
    (odd,) = add_letters(database, 1)
    columns = "endpoint_type, spec, secret_refs"
    odd_policy = f"""INSERT INTO endpoint_versions (endpoint, version, retry_policy, {columns})
      SELECT endpoint, 99, CAST('{{"max_attempts": "x"}}' AS JSONB), {columns} FROM endpoint_versions LIMIT 1"""
    database.fetch(text(odd_policy))
    database.fetch(text("UPDATE executions SET endpoint_version = 99 WHERE execution_id = :id"), {"id": odd})
    (worn,) = add_letters(database, 1)
    most = text(
        f"UPDATE executions SET attempt_count = {2**63 - 1}, max_attempts = {2**63 - 1} WHERE execution_id = :id"
    )
    database.fetch(most, {"id": worn})
    redrive = begun(database, rate=100)
    assert walker(database).walk() == (3, 2)
    assert REDRIVES.get(database, redrive.redrive_id).status is WalkStatus.DONE


class Broken(RedriveWalk):
    """Sees to so many stretches, and then to none."""

    left = 2

    def see_to(self, walk: Redrive, items: Sequence[DeadLetter]) -> Treated:
        """Redrive letters."""
        if not self.left:
            raise OSError("the disk is full")
        self.left -= 1
        return super().see_to(walk, items)


def test_what_is_no_fault_of_a_letter_is_not_counted_against_it_and_what_was_done_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AT_ONCE", 2)
    add_letters(database, 6)
    redrive = begun(database, rate=100)
    laps = list[Lap]()
    with pytest.raises(OSError, match="full"):
        walker(database, kind=Broken(creator(database))).walk(laps.append)
    assert laps == [(2, 0), (2, 0)]
    found = REDRIVES.get(database, redrive.redrive_id)
    assert (found.status, found.redriven, found.refused) == (WalkStatus.RUNNING, 4, 0)
    assert walker(database).walk() == (2, 0)


class Stalled(RedriveWalk):
    """Reads a page, and is then held up for very long."""

    def __init__(self, creator: Creator) -> None:
        super().__init__(creator)
        self.has_read, self.may_go = threading.Event(), threading.Event()

    def next(self, database: Database, wanted: LetterFilter, after: Position, limit: int) -> list[Place[DeadLetter]]:
        """Read the next letters."""
        found = super().next(database, wanted, after, limit)
        self.has_read.set()
        assert self.may_go.wait(60)
        return found


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
@pytest.mark.parametrize("rate", [4, 100])
def test_who_reads_for_longer_than_it_holds_a_walk_sees_to_nothing(
    database: Database, database_url: str, way: str, rate: int
) -> None:
    """Also where the other one is at work still, and where it is at the end."""
    mine = add_letters(database, 10)
    redrive = begun(database, rate=rate, to=rows.add_endpoint(database, "other"))
    with schedulers(database_url, way) as (slow, quick), ThreadPoolExecutor(1) as thread:
        stalled = Stalled(creator(slow))
        lap = thread.submit(walker(slow, "slow", kind=stalled).walk)
        try:
            assert stalled.has_read.wait(60)
            database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
            assert walker(quick, "quick").walk() == (min(rate, 10), 0)
        finally:
            stalled.may_go.set()
        assert lap.result(60) == (0, 0)
        for _ in range(3):
            walker(quick, "quick").walk()
    assert REDRIVES.get(database, redrive.redrive_id).redriven == len(mine)
    new = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE endpoint = 'other'"))
    assert new[0].n == len(mine)


SEEING_TO: dict[str, Callable[[Database, str], object]] = {
    "ARCHIVED": lambda one, letter: archive(one, letter, note="gone", actor="you"),
    "REDRIVEN": lambda one, letter: redrive(creator(one), letter, Anew("other"), actor="you"),
}


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize("otherwise", list(SEEING_TO))
def test_of_a_retry_and_what_else_is_done_about_a_letter_one_comes_about(
    database: Database, database_url: str, level: str, otherwise: str
) -> None:
    if database.is_cockroach:
        pytest.skip("needs to see who waits for whose lock")
    rows.add_endpoint(database, "other")
    seen = set[str | None]()
    with pair(database_url, level) as sides:

        def run(choices: Sequence[int]) -> list[int]:
            (execution_id,) = rows.add_executions(database)
            letter_id = rows.add_letter(database, execution_id)
            return sides.run(
                [
                    lambda one: SEEING_TO[otherwise](one, letter_id),
                    lambda one: retry_execution(one, execution_id, actor="me"),
                ],
                choices,
                with_reads=otherwise == "ARCHIVED",  # of the other there would be very many orders
            )

        for _ in interleavings(run):
            (resolution,) = letters(database).values()
            left = {"RETRIED": {"QUEUED": 1}, "ARCHIVED": {"FAILED": 1}, "REDRIVEN": {"FAILED": 1, "QUEUED": 1}}
            assert rows.statuses(database) == left[resolution or ""], sides.taken
            seen.add(resolution)
            for table in ("dead_letters", "execution_events", "executions", "jobs"):
                database.fetch(text(f"DELETE FROM {table}"))
    assert seen == {"RETRIED"} | ({otherwise} if otherwise == "ARCHIVED" else set())
