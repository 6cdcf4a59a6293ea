"""Trials: a redrive goes on by itself if enough of its first executions succeed, and stops otherwise."""

import pytest
from sqlalchemy import text

from app.features.dead_letters import redrives
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.kernel.db import Database
from schema.states import BulkJobStatus
from tests import rows
from tests.contract.features.dead_letters.redriving import ALL_LETTERS, add_letters, runner


def begin(database: Database, *, trial: int, least: int, to: str | None = None) -> str:
    begun = redrives.begin(database, ALL_LETTERS, to_endpoint=to, rate=100, actor="me", trial=trial, least=least)
    return begun.redrive_id


def end(database: Database, executions: list[str], status: str) -> None:
    query = "UPDATE executions SET status = :status, completed_at = now() WHERE execution_id = ANY (:ids)"
    database.fetch(text(query), {"status": status, "ids": executions})


def read(database: Database, redrive_id: str) -> Redrive:
    return REDRIVES.get(database, redrive_id)


@pytest.mark.parametrize("to", [None, "other"])
def test_rest_follows_a_trial_that_succeeds(database: Database, to: str | None) -> None:
    rows.add_endpoint(database, "other")
    add_letters(database, 9)
    redrive_id = begin(database, trial=3, least=2, to=to)
    assert runner(database).run() == (3, 0)
    assert runner(database).run() == (0, 0), "it waits for the executions of the trial"
    waiting = read(database, redrive_id)
    assert (waiting.status, waiting.redriven, waiting.trial_result) == (BulkJobStatus.RUNNING, 3, None)
    assert waiting.trial_executions is not None
    end(database, waiting.trial_executions[:1], "SUCCESS")
    end(database, waiting.trial_executions[1:2], "FAILED")
    assert runner(database).run() == (0, 0), "one of two is left to tell"
    end(database, waiting.trial_executions[2:], "SUCCESS")
    assert runner(database).run() == (6, 0)
    done = read(database, redrive_id)
    assert (done.status, done.redriven) == (BulkJobStatus.DONE, 9)
    assert done.trial_result == "2 of 3 trials succeeded, 1 failed; 2 were needed"
    assert done.trial_passed_at is not None
    assert done.trial_executions == waiting.trial_executions


def test_trial_that_cannot_succeed_any_more_stops_the_redrive(database: Database) -> None:
    letters = add_letters(database, 9)
    redrive_id = begin(database, trial=4, least=3)
    assert runner(database).run() == (4, 0)
    tried = read(database, redrive_id).trial_executions or []
    assert sorted(tried) == sorted(letters[:4])
    end(database, tried[:2], "FAILED")
    for _ in range(2):
        assert runner(database).run() == (0, 0)
    stopped = read(database, redrive_id)
    assert (stopped.status, stopped.redriven) == (BulkJobStatus.STOPPED, 4)
    assert stopped.trial_result == "0 of 4 trials succeeded, 2 failed; 3 were needed"
    assert stopped.ended_at is not None
    still_open = database.fetch(text("SELECT count(*) AS n FROM dead_letters WHERE resolved_at IS NULL"))[0].n
    assert still_open == 5


def test_refused_letters_are_replaced_in_the_trial(database: Database) -> None:
    letters = add_letters(database, 5)
    database.fetch(
        text(
            "UPDATE jobs SET status = 'PAUSED', paused_at = now() "
            "WHERE job_id = (SELECT job_id FROM executions WHERE execution_id = :id)"
        ),
        {"id": letters[0]},
    )
    redrive_id = begin(database, trial=2, least=2)
    assert sum(runner(database).run()) == 3, "a refused letter is no trial"
    assert sorted(read(database, redrive_id).trial_executions or []) == sorted(letters[1:3])


def test_fewer_letters_than_the_trial_end_the_redrive(database: Database) -> None:
    add_letters(database, 2)
    redrive_id = begin(database, trial=5, least=5)
    assert runner(database).run() == (2, 0)
    assert read(database, redrive_id).status is BulkJobStatus.DONE


def test_trial_survives_its_scheduler(database: Database) -> None:
    add_letters(database, 6)
    redrive_id = begin(database, trial=3, least=3)

    def die(_queue: str) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        runner(database, hint=die).run()
    database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
    assert runner(database, "other").run() == (0, 0)
    end(database, read(database, redrive_id).trial_executions or [], "SUCCESS")
    assert runner(database, "other").run() == (3, 0)
