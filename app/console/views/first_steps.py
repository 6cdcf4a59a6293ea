"""First steps of a new installation until its first delivery."""

from typing import NamedTuple


class FirstStep(NamedTuple):
    """A step; `is_done` once the service has its result. `page` has a form that does it, for its operation."""

    title: str
    command: str
    is_done: bool
    page: str = ""
    operation: str = ""


def first_steps(url: str, *, has_worker: bool, has_endpoint: bool, has_job: bool) -> list[FirstStep]:
    """Return the steps, with commands for the API at `url` and a key in `$KEY`."""
    curl = f'curl -sS -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" {url}'
    endpoint = '{"name": "hello", "type": "HTTP", "spec": {"url": "https://example.com/"}}'
    job = '{"endpoint": "hello", "trigger": "IMMEDIATE", "idempotency_key": "hello-1"}'
    return [
        FirstStep("Start a worker", "dramatiq actors", has_worker),
        FirstStep(
            "Register an endpoint", f"{curl}/endpoints -d '{endpoint}'", has_endpoint, "endpoint_new", "POST /endpoints"
        ),
        FirstStep("Create a job", f"{curl}/jobs -d '{job}'", has_job, "new_job", "POST /jobs"),
    ]
