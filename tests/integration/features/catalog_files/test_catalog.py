"""`flask catalog`, and `flask endpoints test`."""

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
    """A catalogue with one of each kind, and a secret."""
    register_all(api)
    assert api.send("PATCH", "/endpoints/target", json=FLOW).status_code == 200
    assert api.put("/routes", {"routes": ROUTES}).status_code == 200
    channels = ["json://me:{{secret.token}}@127.0.0.1:9/hook", "{{secret.token}}"]
    channel = {"type": "NOTIFICATION", "config": "config", "spec": {"url": channels, "severity": "{{input.severity}}"}}
    assert api.post("/endpoints", {"name": "people", **channel}).status_code == 201
    return api


def exported(cli: Cli, at: Path) -> dict[str, Any]:
    at.write_text(cli.run("catalog", "export").stdout)
    document: dict[str, Any] = yaml.safe_load(at.read_text())
    return document


def shown(api: Api) -> dict[str, Any]:
    """What the API shows of the catalogue, but for what differs between two databases."""
    found = {path: api.get(path).json for path in ("/payload-specs", "/configs", "/endpoints")}
    for page in found.values():
        for item in page["items"]:
            del item["created_at"], item["updated_at"]
    return found | {"/routes": api.get("/routes").json}


def test_an_export_builds_the_same_catalogue_elsewhere(
    filled: Api, cli: Cli, tmp_path: Path, empty_database_url: str
) -> None:
    file = tmp_path / "catalog.yaml"
    document = exported(cli, file)
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
        assert cli.json("catalog", "apply", str(file), "--yes") == {"changes": []}, "again it changes nothing"
        log = there.get("/audit").json["items"]
        assert {each["actor_name"] for each in log if each["resource_type"] == "endpoint"} == {actor().name}
    cli.settings = here


def test_a_change_is_shown_before_it_is_made(filled: Api, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    document = exported(cli, file)
    document["endpoints"]["target"] |= {"priority": 10, "retry_policy": {"max_attempts": 7}}
    del document["endpoints"]["target"]["limits"]
    document["configs"] = {"other": {"day": "2030-01-01"}, "config": document["configs"]["config"]}
    document["payload_specs"]["loose"] = {"type": "object"}
    file.write_text(yaml.safe_dump(document).replace("'2030-01-01'", "2030-01-01"))
    told = cli.run("catalog", "diff", str(file), expect=1).stdout
    for line in ("create config other", "change endpoint target", "-priority: 200", "+priority: 10", "-limits:"):
        assert line in told
    before = shown(filled)
    cli.run("catalog", "apply", str(file), expect=2)
    assert shown(filled) == before
    cli.run("catalog", "apply", str(file), "--yes")
    target = filled.get("/endpoints/target").json
    assert (target["priority"], target["limits"], target["retry_policy"]["max_attempts"]) == (10, None, 7)
    assert filled.get("/configs/other").json["values"] == {"day": "2030-01-01"}, "YAML's dates are texts here"
    cli.run("catalog", "diff", str(file))

    del document["configs"]["other"], document["payload_specs"]["loose"]
    file.write_text(yaml.safe_dump(document))
    cli.run("catalog", "diff", str(file))
    gone = cli.json("catalog", "apply", str(file), "--delete", "--yes")["changes"]
    assert [(each["action"], each["name"]) for each in gone] == [("delete", "other"), ("delete", "loose")]
    assert [each["name"] for each in filled.get("/configs").json["items"]] == ["config"]


@each_case(
    ("document", "said"),
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
def test_what_is_no_catalogue_is_refused_where_it_is_wrong(
    api: Api, cli: Cli, tmp_path: Path, document: str, said: str
) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(document)
    assert said in cli.run("catalog", "apply", str(file), "--yes", expect=1).stderr
    assert api.get("/audit").json["items"][0]["resource_type"] == "api_key", "nothing was changed"


def calling(**called: str | None) -> str:
    spec = {"url": "http://127.0.0.1:9/", "method": "POST"}
    endpoints = {
        name: {"type": "HTTP", "spec": spec} | ({"callbacks": {"on_failure": target}} if target else {})
        for name, target in called.items()
    }
    return yaml.safe_dump({"endpoints": endpoints})


def chain(names: str) -> dict[str, str | None]:
    """Endpoints of one letter, each of which calls the next one back."""
    return dict(zip(names, [*names[1:], None], strict=True))


def test_callbacks_are_checked_as_they_will_be_and_none_is_refused_on_the_way(
    api: Api, cli: Cli, tmp_path: Path
) -> None:
    """Of at most eight that follow each other: what is stored is left behind."""
    file = tmp_path / "catalog.yaml"
    stored = chain("abcdefghi")
    file.write_text(calling(**stored))
    cli.run("catalog", "apply", str(file), "--yes")
    before = api.get("/audit").json["items"][0]
    for wrong, where in (
        (chain("xab"), "/endpoints/x/callbacks: more than 8 callbacks would follow each other: x -> a -> b"),
        (chain("ixyz"), "/endpoints/i/callbacks: more than 8"),
        (chain("ixe"), "lead back to it"),
    ):
        file.write_text(calling(**{name: to or stored.get(name) for name, to in wrong.items()}))
        for verb in ("diff", "apply"):
            assert where in cli.run("catalog", verb, str(file), *["--yes"] * (verb == "apply"), expect=1).stderr
    assert api.get("/audit").json["items"][0] == before, "nothing was changed"
    # The second half goes on only once the first one, which is about to call others, has let go of it; then all turn.
    file.write_text(calling(**chain("abcdxyz"), **chain("efghijk")))
    cli.run("catalog", "apply", str(file), "--yes")
    file.write_text(calling(**chain("ihgfedcba"), j=None, x=None))
    cli.run("catalog", "apply", str(file), "--yes")
    cli.run("catalog", "diff", str(file))
    # What is deleted goes last, and would be in front of too many until then.
    file.write_text(calling(**chain("hgfedcbaj")))
    assert "without some" in cli.run("catalog", "apply", str(file), "--delete", "--yes", expect=1).stderr
    file.write_text(calling(**chain("hgfedcba"), j=None))
    cli.run("catalog", "apply", str(file), "--delete", "--yes")
    file.write_text(calling(**chain("hgfedcbaj")))
    cli.run("catalog", "apply", str(file), "--yes")


def test_nobody_overwrites_a_change_that_the_plan_has_not_shown(
    filled: Api, cli: Cli, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalog.yaml"
    document = exported(cli, file)
    document["configs"]["config"] = {"base": "http://ours"}
    file.write_text(yaml.safe_dump(document))
    replace = type(CONFIGS).replace

    def later(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert filled.put("/configs/config", {"values": {"base": "http://theirs"}}).status_code == 200
        return replace(*arguments)

    monkeypatch.setattr(type(CONFIGS), "replace", later)
    refused = cli.run("catalog", "apply", str(file), "--yes", expect=4)
    assert "change config config" in refused.stderr
    assert filled.get("/configs/config").json["values"] == {"base": "http://theirs"}


def test_an_endpoint_is_shown_as_it_would_be_sent_without_its_secrets(
    filled: Api, cli: Cli, database: Database
) -> None:
    shown = cli.json("endpoints", "test", "target", "--input", '{"user_id": "u_9"}')
    assert shown["spec"]["headers"] == {"Authorization": "Bearer [secret]"}
    assert shown["spec"]["body_template"] == {"user": "u_9"}
    assert shown["target"] == "http:127.0.0.1:9"
    assert shown["sent"] is None
    assert "s3cret" not in cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}').output
    assert database.fetch(text("SELECT 1 FROM jobs")) == []
    assert "/input: 'user_id' is a required property" in cli.run("endpoints", "test", "target", expect=1).stderr
    cli.run("endpoints", "test", "nope", expect=3)
    assert "JSON" in cli.run("endpoints", "test", "target", "--input", "[1]", expect=2).stderr
    database.fetch(text("DELETE FROM secrets"))
    missing = cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}', "--send", expect=1)
    assert "token" in missing.stderr
    assert database.fetch(text("SELECT 1 FROM jobs")) == []


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("FAILED", 1)])
def test_it_is_sent_once_and_waited_for(filled: Api, cli: Cli, database: Database, status: str, code: int) -> None:
    """In place of a worker the test ends what was sent."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            for row in database.fetch(text("SELECT job_id FROM jobs")):
                rows.set_status(database, row.job_id, status)
                return

    worker = threading.Thread(target=work)
    worker.start()
    done = cli.run("endpoints", "test", "target", "--input", '{"user_id": "u_9"}', "--send", "--json", expect=code)
    over.set()
    worker.join()
    sent = json.loads(done.stdout)["sent"]
    assert sent["status"] == status
    (job,) = filled.get("/jobs").json["items"]
    assert job["execution"]["execution_id"] == sent["execution_id"]
    (most,) = database.fetch(text("SELECT max_attempts FROM executions"))
    assert most.max_attempts == 1, "whatever its retry policy says"


def test_a_channel_is_shown_with_the_name_of_its_breaker(filled: Api, cli: Cli) -> None:
    spec = {"url": "slack://{{secret.token}}/#ops", "title": "t", "body": "b"}
    assert filled.post("/endpoints", {"name": "tell", "type": "NOTIFICATION", "spec": spec}).status_code == 201
    assert cli.json("endpoints", "test", "tell")["target"] == with_digest("slack", spec["url"])
    many = {**spec, "url": [f"json://{'h' * 40}{number}.example.com/" for number in range(8)]}
    assert filled.post("/endpoints", {"name": "many", "type": "NOTIFICATION", "spec": many}).status_code == 201
    shown, _, digest = cli.json("endpoints", "test", "many")["target"].rpartition("~")
    assert (len(shown), len(digest)) == (150, 8), "a name that is too long is cut as that of the breaker"


def test_a_url_that_is_a_secret_as_a_whole_is_shown_as_one(filled: Api, cli: Cli) -> None:
    register(filled, "hook", spec={"url": "{{secret.token}}/a", "method": "POST"})
    shown = cli.json("endpoints", "test", "hook")
    assert (shown["spec"]["url"], shown["target"]) == ("[secret]/a", None)
    shown = cli.json("endpoints", "test", "people", "--input", '{"title": "t", "body": "b", "severity": "info"}')
    assert shown["spec"]["url"] == ["json://me:[secret]@127.0.0.1:9/hook", "[secret]"]
