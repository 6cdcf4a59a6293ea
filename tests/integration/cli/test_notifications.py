"""`flask notifications`."""

import threading

import pytest
from sqlalchemy import text

from app.db import Database
from tests import rows
from tests.integration.cli.conftest import Cli
from tests.integration.client import Api
from tests.integration.registered import register


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("FAILED", 1)])
def test_a_test_is_sent_and_waited_for(api: Api, cli: Cli, database: Database, status: str, code: int) -> None:
    """In place of a worker the test ends what was sent."""
    register(api)
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            for row in database.fetch(text("SELECT job_id FROM jobs")):
                rows.set_status(database, row.job_id, status)
                return

    worker = threading.Thread(target=work)
    worker.start()
    told = cli.json("notifications", "test", "target", expect=code)
    over.set()
    worker.join()
    (job,) = api.get("/jobs").json["items"]
    assert (told["status"], told["execution_id"]) == (status, job["execution"]["execution_id"])
    assert job["input"]["event"] == "test"


def test_what_is_not_over_in_time_is_told_as_it_is(api: Api, cli: Cli) -> None:
    register(api)
    assert "QUEUED" in cli.run("notifications", "test", "target", "--wait", "0").stdout
    cli.run("notifications", "test", "nobody", expect=3)
    assert api.post("/endpoints/target/pause").status_code == 200
    cli.run("notifications", "test", "target", expect=4)
