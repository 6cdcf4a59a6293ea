"""Commands of `flask notifications`."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import register


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("FAILED", 1)])
def test_channel_test_is_sent_and_awaited(api: Api, cli: Cli, database: Database, status: str, code: int) -> None:
    """The test completes the execution in place of a worker."""
    register(api)
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            for row in database.fetch(text("SELECT job_id FROM jobs")):
                rows.set_status(database, row.job_id, status)
                return

    worker = threading.Thread(target=work)
    worker.start()
    result = cli.json("notifications", "test", "target", expect=code)
    is_over.set()
    worker.join()
    (job,) = api.get("/jobs").json["items"]
    assert (result["status"], result["execution_id"]) == (status, job["execution"]["execution_id"])
    assert job["input"]["event"] == "test"


def test_channel_test_that_is_not_completed_in_time_shows_its_status(api: Api, cli: Cli) -> None:
    register(api)
    assert "QUEUED" in cli.run("notifications", "test", "target", "--wait", "0").stdout
    cli.run("notifications", "test", "nobody", expect=3)
    assert api.post("/endpoints/target/pause").status_code == 200
    cli.run("notifications", "test", "target", expect=4)


def test_rules_are_shown_previewed_and_deleted(api: Api, cli: Cli, database: Database, tmp_path: Path) -> None:
    register(api)
    rule = {"name": "r", "events": ["execution.failed", "queue.late"], "channels": ["target"], "all": True}
    assert api.post("/notification-rules", rule).status_code == 201
    assert cli.json("notifications", "list") == {"items": api.get("/notification-rules").json["items"], "more": False}
    assert cli.json("notifications", "show", "r") == api.get("/notification-rules/r").json
    assert "all" in cli.run("notifications", "list").stdout
    for _ in range(3):
        rows.add_letter(database)
    preview = cli.run("notifications", "preview", "r")
    assert "3 executions failed: target" in preview.stdout
    assert "queue.late" in preview.stderr
    file = tmp_path / "rule.yaml"
    file.write_text("{events: [execution.failed], channels: [nobody-yet], endpoint: tar*, group_seconds: 0}")
    assert cli.json("notifications", "preview", "--file", str(file))["messages"][0]["sent_at"] is not None
    for wrong in ("[", "7", "{events: [execution.failed], channels: [x]}", "{events: [x], channels: [x], all: true}"):
        file.write_text(wrong)
        assert str(file) in cli.run("notifications", "preview", "--file", str(file), expect=1).stderr
    cli.run("notifications", "preview", expect=2)
    cli.run("notifications", "preview", "nope", expect=3)
    cli.run("notifications", "delete", "r", expect=2)
    cli.run("notifications", "delete", "r", "--yes")
    cli.run("notifications", "show", "r", expect=3)
