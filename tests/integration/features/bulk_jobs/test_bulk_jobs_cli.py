"""`flask redrives` and `flask bulk`."""

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import register


def test_a_redrive_is_tried_begun_and_steered(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    letter_id = rows.add_letter(database, labels={"team": "a"})
    rows.add_letter(database)
    of_team = ("--labels", "team=a", "--failed-after", "1h")
    seen = cli.json("redrives", "start", *of_team, "--dry-run")
    assert (seen["count"], [each["letter_id"] for each in seen["sample"]]) == (1, [letter_id])
    assert "2 would be redriven" in cli.run("redrives", "start", "--all", "--dry-run").stdout
    for given in ((), ("--all", *of_team)):
        assert "all: " in cli.run("redrives", "start", *given, "--yes", expect=2).stderr
    cli.run("redrives", "start", *of_team, expect=2)
    assert api.get("/redrives").json["items"] == []
    cli.run("redrives", "start", "--all", "--to-endpoint", "nope", "--yes", expect=3)
    begun = cli.json("redrives", "start", *of_team, "--rate", "7", "--yes")
    assert (begun["status"], begun["rate"], begun["wanted"]["labels"]) == ("RUNNING", 7, {"team": "a"})
    steer("redrives", begun["redrive_id"], api, cli)


def steer(group: str, bulk_job_id: str, api: Api, cli: Cli) -> None:
    shown = api.get(f"/{'bulk-operations' if group == 'bulk' else group}/{bulk_job_id}").json
    assert cli.json(group, "show", bulk_job_id) == shown
    assert cli.json(group, "list") == {"items": [shown], "more": False}
    assert bulk_job_id in cli.run(group, "list").stdout
    assert shown["actor"].startswith("cli:")
    assert cli.json(group, "pause", bulk_job_id)["status"] == "PAUSED"
    assert cli.json(group, "show", bulk_job_id, "--wait")["status"] == "PAUSED"
    assert "RUNNING" in cli.run(group, "resume", bulk_job_id).stdout
    cli.run(group, "stop", bulk_job_id, expect=2)
    assert cli.json(group, "stop", bulk_job_id, "--yes")["status"] == "STOPPED"
    cli.run(group, "resume", bulk_job_id, expect=4)
    for verb in ("show", "stop"):
        cli.run(group, verb, "nope", expect=3)


def test_a_bulk_operation_is_tried_begun_and_steered(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    (execution_id,) = rows.add_executions(database)
    seen = cli.json("bulk", "start", "cancel", "--endpoint", "target", "--dry-run")
    assert (seen["count"], [each["execution_id"] for each in seen["sample"]]) == (1, [execution_id])
    assert "0 would be changed" in cli.run("bulk", "start", "retry", "--all", "--dry-run").stdout
    assert "all" in cli.run("bulk", "start", "cancel", "--yes", expect=2).stderr
    cli.run("bulk", "start", "reschedule", "--endpoint", "target", "--later", "1h", "--sooner", "1h", expect=2)
    cli.run("bulk", "start", "cancel", "--endpoint", "target", expect=2)
    assert api.get("/bulk-operations").json["items"] == []
    moved = ("--sooner", "30m", "--spread", "10m", "--created-after", "1d")
    begun = cli.json("bulk", "start", "reschedule", *moved, "--status", "queued", "--yes")
    assert (begun["delay_seconds"], begun["spread_seconds"], begun["rate"]) == (-1_800, 600, 100)
    assert begun["wanted"].keys() == {"status", "created_after"}
    steer("bulk", begun["operation_id"], api, cli)
    rows.add_letter(database, error_type="TIMEOUT")
    timeouts = ("bulk", "start", "archive", "--error-type", "TIMEOUT", "--failed-after", "1h")
    assert "note" in cli.run(*timeouts, "--yes", expect=2).stderr
    begun = cli.json(*timeouts, "--note", "gone", "--yes")
    assert (begun["action"], begun["note"]) == ("archive", "gone")
