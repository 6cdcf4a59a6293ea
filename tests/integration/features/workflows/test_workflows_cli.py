"""Commands of `flask workflows`."""

from tests.integration.client import Api
from tests.integration.command_line import Cli

NODES = [{"name": "start", "endpoint": "target"}, {"name": "end", "after": ["start"]}]


def test_workflow_is_listed_shown_drawn_and_cancelled(registered: Api, cli: Cli) -> None:
    made = registered.post("/workflows", {"name": "w", "labels": {"team": "a"}, "nodes": NODES}).json
    workflow_id = made["workflow_id"]
    listed = {name: value for name, value in made.items() if name not in {"input", "waits_for"}}
    assert cli.json("workflows", "list", "--labels", "team=a") == {"items": [listed], "more": False}
    assert cli.json("workflows", "list", "--status", "failed")["items"] == []
    shown = cli.json("workflows", "show", workflow_id)
    assert (shown["workflow"], shown["more"]) == (listed, False)
    assert shown["nodes"] == registered.get(f"/workflows/{workflow_id}/nodes").json["items"]
    lines = cli.run("workflows", "show", workflow_id, "--limit", "1").stdout
    assert "end waits for start" in lines
    assert "WAITING" not in lines
    assert "READY" not in cli.run("workflows", "show", workflow_id, "--state", "waiting").stdout
    assert cli.run("workflows", "graph", workflow_id).stdout.startswith("flowchart TD\n")
    assert cli.run("workflows", "graph", workflow_id, "--dot").stdout.startswith("digraph workflow {\n")
    assert cli.json("workflows", "graph", workflow_id) == registered.get(f"/workflows/{workflow_id}/graph").json
    cli.run("workflows", "cancel", workflow_id, expect=2)
    assert cli.json("workflows", "cancel", workflow_id, "--if-running", "abort", "--yes")["reason"] == "CANCELLED"
    for verb in (["show"], ["graph"], ["cancel", "--yes"]):
        cli.run("workflows", *verb, "nope", expect=3)
