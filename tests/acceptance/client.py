"""An ordinary client of the API."""

from typing import Any

import requests

from tests.waiting import eventually

FINAL = {"SUCCESS", "FAILED", "CANCELLED"}


class Client:
    """Sends requests with an API key and fails on an answer that was not expected."""

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"

    def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        """Send a request; returns the JSON of the answer."""
        answer = self._session.request(method, self._base_url + path, json=body, timeout=60)
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def create(self, path: str, body: Any) -> Any:
        """POST something new."""
        return self.call("POST", path, body, expect=201)

    def run(self, endpoint: str, key: str, input_: Any = None) -> Any:
        """Create an IMMEDIATE job and wait for the end of its execution, which is returned."""
        body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": key, "input": input_ or {}}
        execution_id = self.create("/jobs", body)["execution"]["execution_id"]
        return self.wait_for_end(execution_id)

    def wait_for_end(self, execution_id: str) -> Any:
        """Wait until an execution is final."""

        def final() -> Any:
            found = self.call("GET", f"/executions/{execution_id}")
            return found if found["status"] in FINAL else None

        return eventually(final, what=f"the end of {execution_id}")
