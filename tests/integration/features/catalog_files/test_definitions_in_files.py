"""Definitions of workflows in catalog files: created after the endpoints that they name, and deleted before them."""

from pathlib import Path
from typing import Any

import yaml

from tests.integration.client import Api
from tests.integration.command_line import Cli

HTTP = {"type": "HTTP", "spec": {"url": "http://127.0.0.1:9/", "method": "POST"}}


def definition(endpoint: str) -> dict[str, Any]:
    return {"type": "WORKFLOW", "spec": {"nodes": [{"name": "n", "endpoint": endpoint}]}}


def written(at: Path, **endpoints: dict[str, Any]) -> str:
    at.write_text(yaml.safe_dump({"endpoints": endpoints}))
    return str(at)


def test_definitions_are_applied_in_an_order_that_the_api_accepts(api: Api, cli: Cli, tmp_path: Path) -> None:
    at = tmp_path / "catalog.yaml"
    cli.run("catalog", "apply", written(at, a=definition("b"), b=definition("z"), z=HTTP), "--yes")
    assert {each["name"] for each in api.get("/endpoints").json["items"]} == {"a", "b", "z"}
    cli.run("catalog", "diff", str(at))
    cli.run("catalog", "apply", written(at, other=HTTP), "--delete", "--yes")
    assert {each["name"] for each in api.get("/endpoints").json["items"]} == {"other"}


def test_definition_without_its_endpoint_is_refused_before_any_change(api: Api, cli: Cli, tmp_path: Path) -> None:
    document = written(tmp_path / "catalog.yaml", a=definition("nope"), z=HTTP)
    error = cli.run("catalog", "apply", document, "--yes", expect=1).stderr
    assert "/endpoints/a/spec/nodes: there is no endpoint named 'nope'" in error
    assert api.get("/endpoints").json["items"] == []
