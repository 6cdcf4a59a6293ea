"""Commands of `flask jobs`."""

from sqlalchemy import text

from app.cli.commands import actor
from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import created, cron, interval, one_shot, register


def test_list_equals_the_list_of_the_api(api: Api, cli: Cli) -> None:
    register(api)
    named = created(api, cron(name="Daily \x1b[2J\u202ereport", labels={"team": "billing"}))
    created(api, interval())
    created(api, one_shot("k"))
    assert cli.json("jobs", "list") == {"items": api.get("/jobs").json["items"], "more": False}
    assert [job["trigger"] for job in cli.json("jobs", "list", "--limit", "2")["items"]] == ["IMMEDIATE", "INTERVAL"]
    narrow = ("--trigger", "cron", "--labels", "team=billing", "--status", "ACTIVE", "--created-after", "1h")
    found = cli.json("jobs", "list", *narrow)
    assert found == {"items": [named], "more": False}
    shown = cli.run("jobs", "list", "--limit", "2")
    assert "there are more" in shown.stderr
    assert "every 10s" in shown.stdout
    shown = cli.run("jobs", "list", *narrow)
    assert named["job_id"] in shown.stdout
    assert r"Daily \x1b[2J\u202ereport" in shown.stdout, "control characters are escaped"


def test_list_shows_the_new_time_of_a_job_brought_forward(api: Api, cli: Cli) -> None:
    register(api)
    job = created(api, one_shot("k", trigger="DELAYED", run_at="2099-01-01T00:00:00Z"))
    assert "2099-01-01" in cli.run("jobs", "list").stdout
    assert api.post(f"/jobs/{job['job_id']}/run").status_code == 200
    assert "2099-01-01" not in cli.run("jobs", "list").stdout


def test_show_prints_the_status_and_executions_of_a_job(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    job = created(api, interval())
    run = rows.add_tick(database, job["job_id"], "FAILED")
    shown = cli.json("jobs", "show", job["job_id"])
    assert shown["job"] == api.get(f"/jobs/{job['job_id']}").json
    assert shown["status"] == api.get(f"/jobs/{job['job_id']}/status").json
    assert shown["executions"] == api.get("/executions").json["items"]
    text_ = cli.run("jobs", "show", job["job_id"]).stdout
    assert all(part in text_ for part in (job["job_id"], "FAILING", run, '"user_id":"u_1"'))


def test_cancel_needs_a_confirmation(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    job = created(api, interval())
    waiting = rows.add_tick(database, job["job_id"])
    asked = cli.run("jobs", "cancel", job["job_id"], expect=2)
    assert "--yes" in asked.stderr
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "ACTIVE"

    done = cli.json("jobs", "cancel", job["job_id"], "--yes")
    assert done == {"job": api.get(f"/jobs/{job['job_id']}").json, "cancelled": 1, "asked_to_end": 0}
    assert done["job"]["status"] == "RETIRED"
    assert rows.execution(database, waiting).status == "CANCELLED"
    (event,) = database.fetch(text("SELECT actor FROM execution_events"))
    assert event.actor == actor().name
    assert event.actor.startswith("cli:")
    assert cli.json("jobs", "cancel", job["job_id"], "--yes")["cancelled"] == 0, "a repeated cancel does nothing"


def test_exit_status_gives_the_kind_of_error(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    over = created(api, one_shot("k"))
    rows.set_status(database, over["job_id"], "SUCCESS")
    assert "job_0" in cli.run("jobs", "show", "job_0", expect=3).stderr
    cli.run("jobs", "cancel", "job_0", "--yes", expect=3)
    assert "SUCCESS" in cli.run("jobs", "cancel", over["job_id"], "--yes", expect=4).stderr
    for wrong, message in (
        (("--status", "GONE"), "retired"),
        (("--labels", "team"), "key=value"),
        (("--created-after", "soon"), "7d"),
        (("--queue", "No Queue"), "--queue"),
        (("--limit", "0"), "--limit"),
    ):
        refused = cli.run("jobs", "list", *wrong, expect=2).stderr
        assert message in refused
        assert wrong[0] in refused
    cli.settings = cli.settings.__class__(database_url="postgresql://nobody:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in cli.run("jobs", "list", expect=5).stderr


def test_shell_completes_names_and_ids(api: Api, cli: Cli) -> None:
    register(api)
    job = created(api, cron())

    def completions(words: str, **environment: str) -> list[str]:
        line = {"COMP_WORDS": f"flask --app app {words}", "COMP_CWORD": str(len(words.split()) + 2)}
        return cli.run(_FLASK_COMPLETE="bash_complete", **line, **environment).stdout.split()

    assert completions("endpoints test tar") == ["plain,target"]
    assert completions("jobs list --endpoint nope") == []
    assert completions("jobs cancel job_") == [f"plain,{job['job_id']}"]
    assert completions("executions show exec_") == []
    for elsewhere in ("postgresql://nobody@127.0.0.1:1/none", ""):
        assert completions("endpoints test tar", TE_DATABASE_URL=elsewhere) == []


def test_send_creates_the_job_that_the_api_creates(api: Api, cli: Cli) -> None:
    options = ("--body", '{"user": 7}', "--delay", "1d", "--header", "X-Team: billing", "--method", "put")
    sent = cli.json("jobs", "send", "https://shop.example/reminders", *options, "--key", "k")
    assert sent["ended"] is None
    del sent["ended"]
    assert sent == api.get(f"/jobs/{sent['job_id']}").json
    headers = {"X-Team": "billing"}
    body = {"url": "https://shop.example/reminders", "body": {"user": 8}, "headers": headers, "method": "PUT"}
    assert created(api, body)["endpoint"] == sent["endpoint"]
    refused = cli.run("jobs", "send", "shop.example", "--header", "Cookie: a", expect=1)
    assert all(pointer in refused.stderr for pointer in ("/url: ", "/headers/Cookie: "))


def test_send_signs_and_retries_as_the_api_does(api: Api, cli: Cli) -> None:
    assert api.post("/secrets", {"name": "shop", "value": "whsec_c2VjcmV0"}).status_code == 201
    url, options = "https://shop.example/signed", ("--signing-secret", "shop", "--max-attempts", "5")
    sent = cli.json("jobs", "send", url, *options)
    body = {"url": url, "signing": {"secret": "{{secret.shop}}"}, "retry_policy": {"max_attempts": 5}}
    assert created(api, body)["endpoint"] == sent["endpoint"]
    assert created(api, {"url": url})["endpoint"] != sent["endpoint"]
    refused = cli.run("jobs", "send", url, "--signing-secret", "shp", "--max-attempts", "0", expect=1)
    assert "/retry_policy/max_attempts: " in refused.stderr
    assert "no such secret" in cli.run("jobs", "send", url, "--signing-secret", "shp", expect=1).stderr


def test_misspelt_endpoint_gets_the_name_that_was_meant(api: Api, cli: Cli) -> None:
    register(api)
    assert "no endpoint named 'targt'. Did you mean 'target'?" in cli.run("endpoints", "test", "targt", expect=3).stderr
    assert "; `flask --app app catalog export` lists" in cli.run("endpoints", "test", "zzz", expect=3).stderr
