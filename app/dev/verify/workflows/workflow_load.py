"""Load of workflows: graphs with all shapes, again and again; some are paused and resumed, some cancelled."""

import random
from typing import Any

from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.threads import BackgroundThread

_MAX_BETWEEN_SECONDS, _MAX_PAUSE_SECONDS = 1.5, 1.5
_MAX_ITEMS = 6
_FAILING_SHARE, _REPLAYED_SHARE, _PAUSED_SHARE, _CANCELLED_SHARE = 0.3, 0.1, 0.2, 0.1
_MISSING = "{{parents.first.output.body.nothing.there}}"


class WorkflowLoad(BackgroundThread):
    """Thread that creates workflows; no workflow is paused afterwards."""

    def __init__(self, client: LoadClient, endpoints: VerifyEndpoints, *, seed: int) -> None:
        super().__init__("te-verify-workflows")
        self._client = client
        self._endpoints = endpoints
        self._dice = random.Random(f"{seed}-workflows")
        self.accepted: dict[str, str] = {}
        """Ids of accepted workflows by their keys."""

    def run(self) -> None:
        while not self.stopping.wait(self._dice.uniform(0.0, _MAX_BETWEEN_SECONDS)):
            self._create(f"{self._endpoints.topic}-workflow-{len(self.accepted)}")

    def _create(self, key: str) -> None:
        body = self.body(key)
        made = self._client.ask("/workflows", body)
        if made is None:
            return
        workflow_id: str = made["workflow_id"]
        self.accepted[key] = workflow_id
        if self._dice.random() < _REPLAYED_SHARE:
            again = self._client.ask("/workflows", body)
            if again is not None and again["workflow_id"] != workflow_id:
                self._client.contradictions.append(f"the key {key} was answered with two workflows")
        chance = self._dice.random()
        if chance < _PAUSED_SHARE:
            self._ask(workflow_id, "pause")
            self.stopping.wait(self._dice.uniform(0.0, _MAX_PAUSE_SECONDS))
            self._ask(workflow_id, "resume")
        elif chance < _PAUSED_SHARE + _CANCELLED_SHARE:
            self.stopping.wait(self._dice.uniform(0.0, _MAX_PAUSE_SECONDS))
            self._ask(workflow_id, "cancel" + self._dice.choice(["", "?if_running=request", "?if_running=abort"]))

    def _ask(self, workflow_id: str, verb: str) -> None:
        self._client.ask(f"/workflows/{workflow_id}/{verb}", conflict_is_fine=True)

    def body(self, key: str) -> dict[str, Any]:
        """Return a workflow: a list and a group behind the first node, a gate, a handler and a clean-up."""
        rows = list(range(self._dice.randint(0, _MAX_ITEMS)))
        fails = self._dice.random() < _FAILING_SHARE
        nodes = [
            self._job("first", self._endpoints.steady[0]),
            self._job("items", after=["first"], for_each="{{workflow.input.rows}}", max_parallel=2),
            {"name": "pair", "after": ["first"], "group": [self._job("left"), self._job("right")]},
            self._job("late", after=["first"], delay="1s"),
            self._job("doubtful", after=["first"], input={"key": _MISSING if fails else "doubtful"}),
            {"name": "gate", "after": ["items", "pair", "late", "doubtful"]},
            self._job("last", after=["gate"]),
            self._job("handler", after=["doubtful"], run_if="any_failed"),
            self._job("cleanup", after=["last", "handler"], run_if="all_done"),
        ]
        rule = self._dice.choice(["stop", "continue"])
        given = {"name": self._endpoints.topic, "idempotency_key": key, "input": {"rows": rows}, "on_failure": rule}
        return given | {"nodes": nodes}

    def _job(self, name: str, endpoint: str | None = None, **fields: Any) -> dict[str, Any]:
        endpoint = endpoint or self._dice.choice(self._endpoints.of_nodes)
        return {"name": name, "endpoint": endpoint, "input": {"key": name}} | fields
