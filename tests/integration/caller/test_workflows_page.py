"""Pages of workflows: their calls work as they stand there."""

from typing import Any

from task_executor_client import Client

from tests.code_blocks import DOCS, blocks_of
from tests.integration.client import Api


def created(page: str, address: str, api: Api) -> dict[str, Any]:
    """Run the blocks of a page in their order; returns the workflows by their names."""
    calls = [block.text for block in blocks_of(DOCS / "how-to" / page) if block.language == "python"]
    with Client(address, api.key or "") as te:
        names = {"te": te}
        for call in calls:
            exec(compile(call, page, "exec"), names)
        return {workflow["name"]: workflow for workflow in te.workflows.list()}


def test_calls_of_the_page_of_workflows_work_in_their_order(address: str, shared_api: Api) -> None:
    found = created("workflows.md", address, shared_api)
    assert found.keys() >= {"nightly-report", "thumbnails", "gated", "weekly"}
    assert found["thumbnails"]["reason"] == "CANCELLED"
    assert found["gated"]["nodes"] == 201


def test_each_canvas_of_celery_has_a_workflow(address: str, shared_api: Api) -> None:
    found = created("canvas.md", address, shared_api)
    nodes = {name: found[name]["nodes"] for name in ("chain", "group", "chord", "lists", "errors")}
    assert nodes == {"chain": 3, "group": 2, "chord": 2, "lists": 5, "errors": 3}
    assert found["errors"]["reason"] == "CANCELLED"
    items = shared_api.get(f"/workflows/{found['lists']['workflow_id']}/nodes/starmap/items", limit=1).json["items"]
    job = shared_api.get(f"/jobs/{items[0]['job_id']}").json
    assert job["input"] == {"args": {"x": 0, "y": 0}}
