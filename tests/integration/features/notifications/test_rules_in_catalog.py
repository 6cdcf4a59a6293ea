"""Notification rules in the document of `flask catalog`."""

from pathlib import Path
from typing import Any

import yaml

from tests.cases import each_case
from tests.integration.client import Api, administrator, running
from tests.integration.command_line import Cli
from tests.integration.registered import register, register_all

QUIET = {"from": "22:00", "to": "07:00", "days": ["sat", "sun"], "timezone": "Europe/Berlin"}
RULE = {"events": ["worker.lost"], "channels": ["ops", "people"], "queue": "bulk", "quiet_hours": QUIET}


def fill(api: Api) -> None:
    """Store a catalog with two channels, and a rule that repeats a default."""
    register_all(api)
    register(api, "ops")
    register(api, "people")
    assert api.post("/notification-rules", RULE | {"name": "lost", "group_seconds": 60}).status_code == 201


def shown(api: Api) -> list[Any]:
    """Return the rules as answered, without the fields that differ between two databases."""
    items = api.get("/notification-rules").json["items"]
    return [{name: value for name, value in item.items() if not name.endswith("_at")} for item in items]


def test_export_recreates_the_rules_in_another_database(
    api: Api, cli: Cli, tmp_path: Path, empty_database_url: str
) -> None:
    fill(api)
    file = tmp_path / "catalog.yaml"
    file.write_text(cli.run("catalog", "export").stdout)
    assert cli.json("catalog", "diff", str(file)) == {"changes": []}
    original = cli.settings
    cli.settings = original.__class__(
        database_url=empty_database_url, secret_encryption_key=original.secret_encryption_key
    )
    cli.run("db", "upgrade")
    with running(cli.settings) as app:
        other = administrator(app)
        other.post("/secrets", {"name": "token", "value": "another"})
        made = cli.json("catalog", "apply", str(file), "--yes")["changes"]
        assert (made[-1]["action"], made[-1]["kind"]) == ("create", "notification rule")
        assert shown(other) == shown(api)
    cli.settings = original


def test_rules_are_changed_and_deleted_by_apply(api: Api, cli: Cli, tmp_path: Path) -> None:
    fill(api)
    file = tmp_path / "catalog.yaml"
    document = yaml.safe_load(cli.run("catalog", "export").stdout)
    assert document["notification_rules"] == {"lost": RULE}
    document["notification_rules"] = {"lost": RULE | {"max_per_hour": 4}, "more": RULE | {"max_per_hour": 3}}
    file.write_text(yaml.safe_dump(document))
    assert "+max_per_hour: 4" in cli.run("catalog", "diff", str(file), expect=1).stdout
    cli.run("catalog", "apply", str(file), "--yes")
    assert [api.get(f"/notification-rules/{name}").json["max_per_hour"] for name in ("lost", "more")] == [4, 3]
    del document["notification_rules"]["lost"]
    file.write_text(yaml.safe_dump(document))
    cli.run("catalog", "diff", str(file))
    gone = cli.json("catalog", "apply", str(file), "--delete", "--yes")["changes"]
    assert [(each["action"], each["kind"], each["name"]) for each in gone] == [("delete", "notification rule", "lost")]


@each_case(
    ("document", "message"),
    [
        ("notification_rules: {r: {events: [x], channels: [a]}}", "/notification_rules/r/events/0"),
        ("notification_rules: {r: {events: [queue.late], channels: [a], all: true}}", "/notification_rules/r/channels"),
    ],
)
def test_invalid_rule_is_refused_with_its_pointer(
    api: Api, cli: Cli, tmp_path: Path, document: str, message: str
) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(document)
    assert message in cli.run("catalog", "apply", str(file), "--yes", expect=1).stderr
    assert api.get("/audit").json["items"][0]["resource_type"] == "api_key", "nothing was changed"
