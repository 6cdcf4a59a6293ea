"""Commands of `flask catalog`, and `flask endpoints test`."""

import json
import threading
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from app.catalog.named_table import CONFIGS
from app.catalog.specs import with_digest
from app.cli.commands import actor
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, administrator, running
from tests.integration.command_line import Cli
from tests.integration.registered import register, register_all

FLOW = {"queue": "bulk", "priority": 200, "limits": {"max_in_flight": 3}}
ROUTES = [{"pattern": "billing-*", "queue": "bulk"}]


@pytest.fixture
def filled(api: Api) -> Api:
    """Fill the catalog with a resource of each kind, a secret and a channel."""
    register_all(api)
    assert api.send("PATCH", "/endpoints/target", json=FLOW).status_code == 200
    assert api.put("/routes", {"routes": ROUTES}).status_code == 200
    channels = ["json://me:{{secret.token}}@127.0.0.1:9/hook", "{{secret.token}}"]
    channel = {"type": "NOTIFICATION", "config": "config", "spec": {"url": channels, "severity": "{{input.severity}}"}}
    assert api.post("/endpoints", {"name": "people", **channel}).status_code == 201
    return api


def export_to(cli: Cli, at: Path) -> dict[str, Any]:
    at.write_text(cli.run("catalog", "export").stdout)
    document: dict[str, Any] = yaml.safe_load(at.read_text())
    return document


def shown(api: Api) -> dict[str, Any]:
    """Return the catalog as the API shows it, without the times, which differ between two databases."""
    found = {path: api.get(path).json for path in ("/payload-specs", "/configs", "/endpoints")}
    for page in found.values():
        for item in page["items"]:
            del item["created_at"], item["updated_at"]
    return found | {"/routes": api.get("/routes").json}


def test_export_recreates_the_catalog_in_another_database(
    filled: Api, cli: Cli, tmp_path: Path, empty_database_url: str
) -> None:
    file = tmp_path / "catalog.yaml"
    document = export_to(cli, file)
    assert document["secrets"] == ["token"]
    assert "s3cret" not in file.read_text()
    assert cli.json("catalog", "diff", str(file)) == {"changes": []}

    here, cli.settings = (
        cli.settings,
        cli.settings.__class__(
            database_url=empty_database_url, secret_encryption_key=cli.settings.secret_encryption_key
        ),
    )
    cli.run("db", "upgrade")
    with running(cli.settings) as app:
        there = administrator(app)
        assert "token" in cli.run("catalog", "apply", str(file), "--yes", expect=1).stderr
        there.post("/secrets", {"name": "token", "value": "another"})
        asked = cli.run("catalog", "apply", str(file), expect=2)
        assert "create endpoint target" in asked.stdout
        assert there.get("/endpoints").json["items"] == []
        made = cli.json("catalog", "apply", str(file), "--yes")["changes"]
        assert [(each["action"], each["kind"]) for each in made] == [
            ("create", "payload spec"),
            ("create", "config"),
            *[("create", "endpoint")] * 2,
            ("change", "routes"),
        ]
        assert shown(there) | {"/endpoints": None} == shown(filled) | {"/endpoints": None}
        ours, theirs = (shown(each)["/endpoints"]["items"] for each in (filled, there))
        assert sorted(ours, key=itemgetter("name")) == sorted(theirs, key=itemgetter("name"))
        assert cli.json("catalog", "apply", str(file), "--yes") == {"changes": []}, "a repeated apply changes nothing"
        log = there.get("/audit").json["items"]
        assert {each["actor_name"] for each in log if each["resource_type"] == "endpoint"} == {actor().name}
    cli.settings = here


def test_diff_shows_the_changes_that_apply_makes(filled: Api, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    document = export_to(cli, file)
    document["endpoints"]["target"] |= {"priority": 10, "retry_policy": {"max_attempts": 7}}
    del document["endpoints"]["target"]["limits"]
    document["configs"] = {"other": {"day": "2030-01-01"}, "config": document["configs"]["config"]}
    document["payload_specs"]["loose"] = {"type": "object"}
    file.write_text(yaml.safe_dump(document).replace("'2030-01-01'", "2030-01-01"))
    output = cli.run("catalog", "diff", str(file), expect=1).stdout
    for line in ("create config other", "change endpoint target", "-priority: 200", "+priority: 10", "-limits:"):
        assert line in output
    before = shown(filled)
    cli.run("catalog", "apply", str(file), expect=2)
    assert shown(filled) == before
    cli.run("catalog", "apply", str(file), "--yes")
    target = filled.get("/endpoints/target").json
    assert (target["priority"], target["limits"], target["retry_policy"]["max_attempts"]) == (10, None, 7)
    assert filled.get("/configs/other").json["values"] == {"day": "2030-01-01"}, "a YAML date is stored as text"
    cli.run("catalog", "diff", str(file))

    document["payload_specs"]["loose"] = {"type": "object", "properties": {"on": {"const": 1}}}
    document["configs"]["other"] = {"is_enabled": 1}
    file.write_text(yaml.safe_dump(document))
    cli.run("catalog", "apply", str(file), "--yes")
    # To Python, 1 equals True.
    document["payload_specs"]["loose"]["properties"]["on"]["const"] = True
    document["configs"]["other"] = {"is_enabled": True}
    file.write_text(yaml.safe_dump(document))
    changed = cli.json("catalog", "apply", str(file), "--yes")["changes"]
    assert [each["name"] for each in changed] == ["loose", "other"]
    assert filled.get("/configs/other").json["values"]["is_enabled"] is True

    del document["configs"]["other"], document["payload_specs"]["loose"]
    file.write_text(yaml.safe_dump(document))
    cli.run("catalog", "diff", str(file))
    gone = cli.json("catalog", "apply", str(file), "--delete", "--yes")["changes"]
    assert [(each["action"], each["name"]) for each in gone] == [("delete", "other"), ("delete", "loose")]
    assert [each["name"] for each in filled.get("/configs").json["items"]] == ["config"]


@each_case(
    ("document", "message"),
    [
        ("endpoints: [", "not valid YAML"),
        ("endpoints: {a: {}, a: {}}", "duplicate key"),
        ("endpoint: {}", "/endpoint: Unknown field"),
        ("endpoints: {target: {type: HTTP, spec: {method: POST}}}", "/endpoints/target/spec"),
        ("configs: {a: {}}\nendpoints: {t: {type: HTTP, config: b, spec: {}}}", "/endpoints/t/config"),
        ("configs: {Bad_Name: {}}", "/configs/Bad_Name"),
        ("payload_specs: {a: {type: nothing}}", "/payload_specs/a"),
        ("configs: {a: {b: .nan}}", "JSON does not know"),
        ("routes: [{pattern: a}]", "/routes/0/queue"),
    ],
)
def test_invalid_catalog_is_refused_with_its_pointer(
    api: Api, cli: Cli, tmp_path: Path, document: str, message: str
) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(document)
    assert message in cli.run("catalog", "apply", str(file), "--yes", expect=1).stderr
    assert api.get("/audit").json["items"][0]["resource_type"] == "api_key", "nothing was changed"


def catalog_of(**callbacks: str | None) -> str:
    spec = {"url": "http://127.0.0.1:9/", "method": "POST"}
    endpoints = {
        name: {"type": "HTTP", "spec": spec} | ({"callbacks": {"on_failure": target}} if target else {})
        for name, target in callbacks.items()
    }
    return yaml.safe_dump({"endpoints": endpoints})


def chain(names: str) -> dict[str, str | None]:
    """Return endpoints named by one letter each; each endpoint calls back the next endpoint."""
    return dict(zip(names, [*names[1:], None], strict=True))


def test_callbacks_are_checked_in_the_final_state_and_never_exceed_the_limit_on_the_way(
    api: Api, cli: Cli, tmp_path: Path
) -> None:
    """At most eight callbacks may follow each other. Stored endpoints that the file leaves out count too."""
    file = tmp_path / "catalog.yaml"
    stored = chain("abcdefghi")
    file.write_text(catalog_of(**stored))
    cli.run("catalog", "apply", str(file), "--yes")
    before = api.get("/audit").json["items"][0]
    for wrong, where in (
        (chain("xab"), "/endpoints/x/callbacks: more than 8 callbacks would follow each other: x -> a -> b"),
        (chain("ixyz"), "/endpoints/i/callbacks: more than 8"),
        (chain("ixe"), "lead back to it"),
    ):
        file.write_text(catalog_of(**{name: to or stored.get(name) for name, to in wrong.items()}))
        for verb in ("diff", "apply"):
            assert where in cli.run("catalog", verb, str(file), *["--yes"] * (verb == "apply"), expect=1).stderr
    assert api.get("/audit").json["items"][0] == before, "nothing was changed"
    # Apply changes the callback of `d` before it extends the chain that starts with `e`. The next file reverses chains.
    file.write_text(catalog_of(**chain("abcdxyz"), **chain("efghijk")))
    cli.run("catalog", "apply", str(file), "--yes")
    file.write_text(catalog_of(**chain("ihgfedcba"), j=None, x=None))
    cli.run("catalog", "apply", str(file), "--yes")
    cli.run("catalog", "diff", str(file))
    # Deletions run last: until then, the deleted endpoints count towards the limit.
    file.write_text(catalog_of(**chain("hgfedcbaj")))
    assert "without some" in cli.run("catalog", "apply", str(file), "--delete", "--yes", expect=1).stderr
    file.write_text(catalog_of(**chain("hgfedcba"), j=None))
    cli.run("catalog", "apply", str(file), "--delete", "--yes")
    file.write_text(catalog_of(**chain("hgfedcbaj")))
    cli.run("catalog", "apply", str(file), "--yes")


def test_apply_does_not_overwrite_a_change_made_after_the_plan(
    filled: Api, cli: Cli, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalog.yaml"
    document = export_to(cli, file)
    document["configs"]["config"] = {"base": "http://ours"}
    file.write_text(yaml.safe_dump(document))
    replace = type(CONFIGS).replace

    def replace_after_another_change(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert filled.put("/configs/config", {"values": {"base": "http://theirs"}}).status_code == 200
        return replace(*arguments)

    monkeypatch.setattr(type(CONFIGS), "replace", replace_after_another_change)
    refused = cli.run("catalog", "apply", str(file), "--yes", expect=4)
    assert "change config config" in refused.stderr
    assert filled.get("/configs/config").json["values"] == {"base": "http://theirs"}


def test_endpoint_test_shows_the_request_with_masked_secrets(filled: Api, cli: Cli, database: Database) -> None:
    shown = cli.json("endpoints", "test", "target", "--input", '{"user_id": "u_9"}')
    assert shown["spec"]["headers"] == {"Authorization": "Bearer [secret]"}
    assert shown["spec"]["body_template"] == {"user": "u_9"}
    assert shown["target"] == "http:127.0.0.1:9"
    assert shown["sent"] is None
    assert "s3cret" not in cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}').output
    assert database.fetch(text("SELECT 1 FROM jobs")) == []
    assert "/input/user_id: Required" in cli.run("endpoints", "test", "target", expect=1).stderr
    cli.run("endpoints", "test", "nope", expect=3)
    assert "JSON" in cli.run("endpoints", "test", "target", "--input", "[1]", expect=2).stderr
    database.fetch(text("DELETE FROM secrets"))
    missing = cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}', "--send", expect=1)
    assert "token" in missing.stderr
    assert database.fetch(text("SELECT 1 FROM jobs")) == []


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("FAILED", 1)])
def test_endpoint_test_sends_one_delivery_and_waits_for_its_result(
    filled: Api, cli: Cli, database: Database, status: str, code: int
) -> None:
    """The test completes the execution in place of a worker."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            for row in database.fetch(text("SELECT job_id FROM jobs")):
                rows.set_status(database, row.job_id, status)
                return

    worker = threading.Thread(target=work)
    worker.start()
    done = cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}', "--send", "--json", expect=code)
    is_over.set()
    worker.join()
    sent = json.loads(done.stdout)["sent"]
    assert sent["status"] == status
    (job,) = filled.get("/jobs").json["items"]
    assert job["execution"]["execution_id"] == sent["execution_id"]
    (most,) = database.fetch(text("SELECT max_attempts FROM executions"))
    assert most.max_attempts == 1, "the retry policy of the endpoint is ignored"


def test_channel_is_shown_with_the_target_of_its_breaker(filled: Api, cli: Cli) -> None:
    spec = {"url": "slack://{{secret.token}}/#ops", "title": "t", "body": "b"}
    assert filled.post("/endpoints", {"name": "tell", "type": "NOTIFICATION", "spec": spec}).status_code == 201
    assert cli.json("endpoints", "test", "tell")["target"] == with_digest("slack", spec["url"])
    many = {**spec, "url": [f"json://{'h' * 40}{number}.example.com/" for number in range(8)]}
    assert filled.post("/endpoints", {"name": "many", "type": "NOTIFICATION", "spec": many}).status_code == 201
    shown, _, digest = cli.json("endpoints", "test", "many")["target"].rpartition("~")
    assert (len(shown), len(digest)) == (150, 8), "a long name is cut, like the name of the breaker"


def test_url_from_a_secret_is_masked_as_a_whole(filled: Api, cli: Cli) -> None:
    register(filled, "hook", spec={"url": "{{secret.token}}/a", "method": "POST"})
    shown = cli.json("endpoints", "test", "hook")
    assert (shown["spec"]["url"], shown["target"]) == ("[secret]/a", None)
    shown = cli.json("endpoints", "test", "people", "--input", '{"title": "t", "body": "b", "severity": "info"}')
    assert shown["spec"]["url"] == ["json://me:[secret]@127.0.0.1:9/hook", "[secret]"]
