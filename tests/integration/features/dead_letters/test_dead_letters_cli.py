"""Commands of `flask dead-letters`."""

from app.features.dead_letters.api import MAX_ATTEMPTS
from app.kernel.db import Database
from app.queue.executions.execution_model import DeliveryError
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import register


def test_json_output_equals_the_answers_of_the_api(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    (execution_id,) = rows.add_executions(database)
    letter_id = rows.add_letter(database, execution_id, message="answered \x1b[31m503", labels={"team": "a"})
    error = DeliveryError("HTTP_ERROR", "answered \x1b[31m503").as_json(retryable=False)
    rows.add_attempt(database, execution_id, 1, "FAILED", error=error)
    rows.add_letter(database, error_type="TIMEOUT")
    listed = cli.json(
        "dead-letters", "list", "--error-type", "HTTP_ERROR", "--labels", "team=a", "--failed-after", "1h"
    )
    assert listed == {"items": api.get("/dead-letters", error_type="HTTP_ERROR").json["items"], "more": False}
    assert cli.json("dead-letters", "list", "--state", "resolved")["items"] == []
    assert cli.json("dead-letters", "show", letter_id) == api.get(f"/dead-letters/{letter_id}").json
    output = cli.run("dead-letters", "list").stdout + cli.run("dead-letters", "show", letter_id).stdout
    assert output.count(r"answered \x1b[31m503") >= 2
    cli.run("dead-letters", "show", "att_nope", expect=3)
    for number in range(-MAX_ATTEMPTS, 1):
        rows.add_attempt(database, execution_id, number, "FAILED", error=error)
    assert f"GET /executions/{execution_id}/attempts" in cli.run("dead-letters", "show", letter_id).stdout


def test_letters_are_redriven_and_archived(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    register(api, "other")
    first, second, third = (rows.add_letter(database) for _ in range(3))
    assert cli.json("dead-letters", "redrive", first)["resolution"] == "REDRIVEN"
    assert "is redriven as exec_" in cli.run("dead-letters", "redrive", second, "--endpoint", "other").stdout
    assert len(api.get("/jobs", endpoint="other").json["items"]) == 1
    cli.run("dead-letters", "archive", third, "--note", "gone", expect=2)
    shown = cli.json("dead-letters", "archive", third, "--note", "gone", "--yes")
    assert (shown["resolution"], shown["note"]) == ("ARCHIVED", "gone")
    assert shown["resolved_by"].startswith("cli:")
    cli.run("dead-letters", "redrive", third, expect=4)
    cli.run("dead-letters", "redrive", "att_nope", expect=3)
