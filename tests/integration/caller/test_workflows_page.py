"""Page of workflows: its calls work as they stand there."""

from task_executor_client import Client

from tests.code_blocks import DOCS, blocks_of
from tests.integration.client import Api


def test_calls_of_the_page_of_workflows_work_in_their_order(address: str, shared_api: Api) -> None:
    calls = [block.text for block in blocks_of(DOCS / "how-to" / "workflows.md") if block.language == "python"]
    with Client(address, shared_api.key or "") as te:
        names = {"te": te}
        for call in calls:
            exec(compile(call, "workflows.md", "exec"), names)
        found = {workflow["name"]: workflow for workflow in te.workflows.list()}
    assert found.keys() == {"nightly-report", "thumbnails", "chord", "gated"}
    assert found["thumbnails"]["reason"] == "CANCELLED"
    assert found["gated"]["nodes"] == 201
