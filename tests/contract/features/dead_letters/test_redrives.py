"""Redrives of several dead letters: each matching letter once, in order, at the rate."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.features.dead_letters.letter_list import LetterFilter, LetterState, next_letters, page_of_letters
from app.features.dead_letters.redrive import Replacement, redrive
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.bulk.bulk_job import BEGINNING
from app.queue.bulk.bulk_job_kind import preview
from app.queue.ending.letters import archive
from app.queue.executions.manual_retry import retry_execution
from schema.states import BulkJobStatus
from tests import rows
from tests.contract.ending.following import dead_letters
from tests.contract.features.dead_letters.redriving import (
    ALL_LETTERS,
    EVENTS,
    add_letters,
    begin,
    creator,
    redrive_job,
    runner,
)
from tests.contract.races.interleaving import interleavings, pair
from tests.integration.statements import Statements


def test_redrive_runs_the_letters_of_its_filter_in_order_at_its_rate(database: Database) -> None:
    wanted = LetterFilter(error_type="TIMEOUT", labels={"team": "a"})
    add_letters(database, 2)
    add_letters(database, 2, error_type="TIMEOUT", labels={"team": "b"})
    execution_ids = add_letters(database, 10, error_type="TIMEOUT", labels={"team": "a", "env": "x"})
    seen = preview(database, redrive_job(database), wanted)
    assert (seen.count, seen.is_complete, [letter.execution_id for letter in seen.sample]) == (10, True, execution_ids)
    redrive = begin(database, wanted)
    later = add_letters(database, 1, error_type="TIMEOUT", labels={"team": "a"})
    one = runner(database)
    assert [one.run() for _ in range(4)] == [(4, 0), (4, 0), (2, 0), (0, 0)]
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (BulkJobStatus.DONE, 10, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == execution_ids
    assert rows.execution(database, later[0]).status == "FAILED"
    resolved = database.fetch(text("SELECT DISTINCT resolution, resolved_by FROM dead_letters"))
    assert {tuple(row) for row in resolved} == {(None, None), ("REDRIVEN", "me")}


def letters_by_execution(database: Database) -> dict[str, str]:
    return {
        each.execution_id: each.letter_id for each in page_of_letters(database, LetterFilter(), PageRequest()).items
    }


def test_redrive_of_chosen_letters_runs_them_alone(database: Database) -> None:
    executions = add_letters(database, 3)
    letters = letters_by_execution(database)
    begin(database, LetterFilter(letter_ids=[letters[executions[2]], letters[executions[0]]]))
    assert runner(database).run() == (2, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == executions[::2]


def test_preview_counts_the_letters_behind_its_sample_as_a_read_of_all_letters_does(database: Database) -> None:
    add_letters(database, 15, labels={"team": "a"})
    add_letters(database, 15)
    for wanted, matching in ((ALL_LETTERS, 30), (LetterFilter(labels={"team": "a"}), 15)):
        seen = preview(database, redrive_job(database), wanted)
        assert (seen.count, seen.is_complete) == (matching, True)
        assert preview(database, redrive_job(database), wanted, at_once=11) == seen
        bounded = preview(database, redrive_job(database), wanted, at_once=11, most=14)
        assert (bounded.count, bounded.is_complete) == (14, False)


def test_preview_of_a_filter_without_a_match_counts_what_it_did_not_read(database: Database) -> None:
    add_letters(database, 30)
    statements = Statements()
    event.listen(database.engine, "before_cursor_execute", statements)
    seen = preview(database, redrive_job(database), LetterFilter(labels={"team": "a"}), at_once=5)
    assert (seen.count, seen.is_complete, seen.sample) == (0, True, [])
    assert len([text for text in statements.texts if "FROM dead_letters" in text]) == 2


def test_redrive_and_list_select_the_same_letters(database: Database) -> None:
    first, between, last = add_letters(database, 3)
    ids = letters_by_execution(database)
    chosen = LetterFilter(letter_ids=[ids[last], ids[first], "letter_nobody"])
    after, before = (rows.execution(database, each).completed_at for each in (first, last))
    for wanted, expected in (
        (LetterFilter(failed_after=after, failed_before=before), [between]),
        (LetterFilter(labels={}), [first, between, last]),
        (chosen, [first, last]),
        (replace(chosen, failed_after=after), [last]),
        (replace(chosen, error_type="RARE"), []),
        (replace(chosen, state=LetterState.RESOLVED), []),
    ):
        shown = page_of_letters(database, wanted, PageRequest()).items
        assert [letter.execution_id for letter in reversed(shown)] == expected, wanted
        assert [
            letter.execution_id for letter in preview(database, redrive_job(database), wanted).sample
        ] == expected, wanted


@pytest.mark.postgresql_only
@pytest.mark.parametrize("wanted", [LetterFilter(endpoint="rare"), LetterFilter(error_type="RARE")])
def test_rare_letters_are_read_by_their_index_although_old_statistics_call_them_common(
    database: Database, wanted: LetterFilter
) -> None:
    """Another index in the same order would read every letter that failed earlier."""
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


def pause_job_of(database: Database, execution_id: str) -> str:
    job_id: str = rows.job_of(database, execution_id).job_id
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE job_id = :id"), {"id": job_id})
    return job_id


def test_refused_letter_is_counted_and_stays_open(database: Database) -> None:
    execution_ids = add_letters(database, 5)
    job_id = pause_job_of(database, execution_ids[2])
    redrive = begin(database, rate=100)
    assert runner(database).run() == (4, 1)
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (BulkJobStatus.DONE, 4, 1)
    assert job_id in (done.last_refusal or "")
    assert preview(database, redrive_job(database), ALL_LETTERS).count == 1


@pytest.mark.parametrize("to", [None, "other"])
def test_letter_resolved_by_another_redrive_is_refused(database: Database, to: str | None) -> None:
    add_letters(database, 3)
    rows.add_endpoint(database, "other")
    first, second = begin(database), begin(database, to=to)
    found = page_of_letters(database, ALL_LETTERS, PageRequest()).items
    assert not redrive_job(database).process(first, found[:2]).refused
    treated = database.transact_jointly(lambda: redrive_job(database).process(second, found))
    assert {*treated.refused} == {letter.letter_id for letter in found[:2]}


def test_refused_new_job_does_not_affect_the_other_letters_of_its_batch(database: Database) -> None:
    execution_ids = add_letters(database, 5)
    rows.add_endpoint(database, "strict")
    schema = """{"properties": {"a": {"type": "integer"}}}"""
    spec = f"INSERT INTO payload_specs (name, schema_json) VALUES ('strict', '{schema}')"
    for statement in (spec, "UPDATE endpoints SET payload_spec_ref = 'strict' WHERE name = 'strict'"):
        database.fetch(text(statement))
    wrong = """UPDATE jobs SET input = '{"a": "x"}' WHERE job_id = :id"""
    database.fetch(text(wrong), {"id": rows.job_of(database, execution_ids[2]).job_id})
    redrive = begin(database, rate=100, to="strict")
    assert runner(database).run() == (4, 1)
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (BulkJobStatus.DONE, 4, 1)
    new = database.fetch(text("SELECT idempotency_key FROM jobs WHERE endpoint = 'strict'"))
    assert len({row.idempotency_key for row in new}) == 4
    resolved = database.fetch(
        text(
            "SELECT d.resolved_by, e.endpoint FROM dead_letters AS d "
            "JOIN executions AS e ON e.execution_id = d.redriven_as"
        )
    )
    assert [tuple(row) for row in resolved] == [("me", "strict")] * 4


def test_letter_with_an_invalid_row_is_refused_and_delays_no_other_letter(database: Database) -> None:
    add_letters(database, 3)
    (odd,) = add_letters(database, 1)
    columns = "endpoint_type, spec, secret_refs"
    odd_policy = f"""INSERT INTO endpoint_versions (endpoint, version, retry_policy, {columns})
      SELECT endpoint, 99, CAST('{{"max_attempts": "x"}}' AS JSONB), {columns} FROM endpoint_versions LIMIT 1"""
    database.fetch(text(odd_policy))
    database.fetch(text("UPDATE executions SET endpoint_version = 99 WHERE execution_id = :id"), {"id": odd})
    (exhausted,) = add_letters(database, 1)
    set_maximum = text(
        f"UPDATE executions SET attempt_count = {2**63 - 1}, max_attempts = {2**63 - 1} WHERE execution_id = :id"
    )
    database.fetch(set_maximum, {"id": exhausted})
    redrive = begin(database, rate=100)
    assert runner(database).run() == (3, 2)
    assert REDRIVES.get(database, redrive.redrive_id).status is BulkJobStatus.DONE


RESOLUTIONS: dict[str, Callable[[Database, str], object]] = {
    "ARCHIVED": lambda database, letter: archive(database, letter, note="gone", actor="you"),
    "REDRIVEN": lambda database, letter: redrive(creator(database), letter, Replacement("other"), actor="you"),
}


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize("other", list(RESOLUTIONS))
def test_dead_letter_is_resolved_once_by_retry_archive_or_redrive(
    database: Database, database_url: str, level: str, other: str
) -> None:
    if database.is_cockroach:
        pytest.skip("reads pg_blocking_pids to find which transaction waits for a lock")
    rows.add_endpoint(database, "other")
    seen = set[str | None]()
    with pair(database_url, level) as sides:

        def run(choices: Sequence[int]) -> list[int]:
            (execution_id,) = rows.add_executions(database)
            letter_id = rows.add_letter(database, execution_id)
            return sides.run(
                [
                    lambda side: RESOLUTIONS[other](side, letter_id),
                    lambda side: retry_execution(side, execution_id, actor="me"),
                ],
                choices,
                with_reads=other == "ARCHIVED",  # with its reads, a redrive has too many interleavings
            )

        for _ in interleavings(run):
            (resolution,) = dead_letters(database).values()
            left = {"RETRIED": {"QUEUED": 1}, "ARCHIVED": {"FAILED": 1}, "REDRIVEN": {"FAILED": 1, "QUEUED": 1}}
            assert rows.statuses(database) == left[resolution or ""], sides.taken
            seen.add(resolution)
            for table in ("dead_letters", "execution_events", "executions", "jobs"):
                database.fetch(text(f"DELETE FROM {table}"))
    assert seen == {"RETRIED"} | ({other} if other == "ARCHIVED" else set())
