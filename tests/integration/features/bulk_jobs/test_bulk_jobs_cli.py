"""Commands of `flask redrives` and `flask bulk`."""

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import created, cron, register


def test_redrive_is_previewed_started_and_controlled(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    letter_id = rows.add_letter(database, labels={"team": "a"})
    rows.add_letter(database)
    team_filter = ("--labels", "team=a", "--failed-after", "1h")
    preview = cli.json("redrives", "start", *team_filter, "--dry-run")
    assert (preview["count"], [each["letter_id"] for each in preview["sample"]]) == (1, [letter_id])
    assert "2 rows would be redriven" in cli.run("redrives", "start", "--all", "--dry-run").stdout
    for given in ((), ("--all", *team_filter)):
        assert "all: " in cli.run("redrives", "start", *given, "--yes", expect=2).stderr
    cli.run("redrives", "start", *team_filter, expect=2)
    assert api.get("/redrives").json["items"] == []
    cli.run("redrives", "start", "--all", "--to-endpoint", "nope", "--yes", expect=3)
    started = cli.json("redrives", "start", *team_filter, "--rate", "7", "--yes")
    assert (started["status"], started["rate"], started["wanted"]["labels"]) == ("RUNNING", 7, {"team": "a"})
    check_control("redrives", started["redrive_id"], api, cli)


def check_control(group: str, bulk_job_id: str, api: Api, cli: Cli) -> None:
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


def test_bulk_operation_is_previewed_started_and_controlled(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    (execution_id,) = rows.add_executions(database)
    preview = cli.json("bulk", "start", "cancel", "--endpoint", "target", "--dry-run")
    assert (preview["count"], [each["execution_id"] for each in preview["sample"]]) == (1, [execution_id])
    assert "0 rows would be changed" in cli.run("bulk", "start", "retry", "--all", "--dry-run").stdout
    assert "all" in cli.run("bulk", "start", "cancel", "--yes", expect=2).stderr
    cli.run("bulk", "start", "reschedule", "--endpoint", "target", "--later", "1h", "--sooner", "1h", expect=2)
    cli.run("bulk", "start", "cancel", "--endpoint", "target", expect=2)
    assert api.get("/bulk-operations").json["items"] == []
    new_times = ("--sooner", "30m", "--spread", "10m", "--created-after", "1d")
    started = cli.json("bulk", "start", "reschedule", *new_times, "--status", "queued", "--yes")
    assert (started["delay_seconds"], started["spread_seconds"], started["rate"]) == (-1_800, 600, 100)
    assert started["wanted"].keys() == {"status", "created_after"}
    check_control("bulk", started["operation_id"], api, cli)
    rows.add_letter(database, error_type="TIMEOUT")
    timeouts = ("bulk", "start", "archive", "--error-type", "TIMEOUT", "--failed-after", "1h")
    assert "note" in cli.run(*timeouts, "--yes", expect=2).stderr
    started = cli.json(*timeouts, "--note", "gone", "--yes")
    assert (started["action"], started["note"]) == ("archive", "gone")
    job_id = created(api, cron(name="report"))["job_id"]
    assert "report" in cli.run("bulk", "start", "pause", "--name", "report", "--dry-run").stdout
    preview = cli.json("bulk", "start", "pause", "--name", "report", "--dry-run")
    assert [each["job_id"] for each in preview["jobs"]] == [job_id]
    assert cli.json("bulk", "start", "pause", "--name", "report", "--yes")["action"] == "pause"
