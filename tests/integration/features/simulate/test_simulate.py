"""Command `flask simulate`."""

from sqlalchemy import text

from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import created, cron, interval, register

FROM = ("--from", "2030-01-01T00:00:00Z")


def test_month_of_the_stored_jobs_is_simulated(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    created(api, cron(cron="30 9 * * *", timezone="UTC", name="report", starts_at=FROM[1]))
    beat = created(api, interval(every="30s", starts_at=FROM[1]))
    gone = created(api, interval(every="10ms"))
    assert api.post(f"/jobs/{gone['job_id']}/cancel").status_code == 200
    before = database.fetch(text("SELECT * FROM jobs ORDER BY job_id"))
    found = cli.json("simulate", *FROM)
    assert {each["name"]: each["starts"] for each in found["jobs"]} == {"report": 30, beat["job_id"]: 30 * 2880}
    assert found["total"]["starts"] == sum(each["starts"] for each in found["hours"]) == 30 + 30 * 2880
    assert [each["starts"] for each in found["collisions"]] == [2] * 10
    assert found["collisions"][0]["at"] == "2030-01-01T09:30:00Z"
    output = cli.run("simulate", "--from", "2030-01-01T12:00:00Z", "--for", "7d").stdout
    assert f"09  {'█' * 50}  121 to 121\n" in output
    assert database.fetch(text("SELECT * FROM jobs ORDER BY job_id")) == before, "nothing is stored"
    refused = cli.run("simulate", "--job", gone["job_id"], expect=2)
    assert "ACTIVE" in refused.stderr


def test_job_names_cannot_control_the_terminal(api: Api, cli: Cli) -> None:
    register(api)
    created(api, cron(name="[red]\x1b[31m"))
    output = cli.run("simulate", "--for", "1h").output
    assert "[red]\\x1b[31m" in output
    assert "\x1b" not in output


def test_simulation_of_a_given_schedule_and_outage(cli: Cli) -> None:
    arguments = ("simulate", *FROM, "--for", "1d", "--cron", "* * * * *", "--outage-after", "6h", "--outage-for", "2h")
    assert cli.json(*arguments)["total"] == {
        "starts": 24 * 60, "made_up": 120, "skipped_catch_up": 0, "skipped_overlap": 0,
    }  # fmt: skip
    latest = cli.json(*arguments, "--catch-up", "latest")["total"]
    assert (latest["made_up"], latest["skipped_catch_up"]) == (1, 119)
    assert cli.json("simulate", "--every", "10ms", "--for", "1d")["total"]["starts"] in {8_640_000, 8_639_999}
    for wrong, message in (
        (("--cron", "61 * * * *"), "--cron"),
        (("--cron", "0 0 * * *", "--timezone", "Mars"), "--timezone"),
        (("--every", "1ms"), "--every"),
        (("--every", "1s", "--cron", "* * * * *"), "only one"),
        (("--every", "1s", "--for", "1h", "--outage-after", "30m"), "--outage-for"),
        (("--every", "1s", "--takes", "long"), "--takes"),
    ):
        done = cli.run("simulate", *wrong, expect=2)
        assert message in done.stderr
