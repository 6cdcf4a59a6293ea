"""Page of schedules: its calls work as they stand there."""

import re
from pathlib import Path

from task_executor_client import Client

from tests.integration.client import Api

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "schedule.md"


def test_calls_of_the_page_work_in_their_order(address: str, shared_api: Api) -> None:
    calls = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with Client(address, shared_api.key or "") as te:
        names = {"te": te}
        for call in calls:
            exec(compile(call, PAGE.name, "exec"), names)
        assert len(calls) == 6
        assert te.jobs.list(name="Daily report").first()["status"] == "RETIRED"
        assert te.jobs.list(name="Poll the supplier").first()["status"] == "ACTIVE"
