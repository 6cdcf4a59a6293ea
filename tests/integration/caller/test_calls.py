"""Both clients against the API on a port: calls, retries, errors, pages, waiting, closing."""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from task_executor_client import (
    ApiError,
    AsyncClient,
    ConnectionFailedError,
    NotModifiedError,
    Retries,
    WaitTimeoutError,
    errors,
    etag,
    replayed,
    request_id,
)

from tests.integration.caller.serving import FaultyNetwork
from tests.integration.client import Api
from tests.integration.registered import INPUT, SCHEMA, http_endpoint
from tests.racing import at_once
from tests.waiting import eventually


@pytest.fixture
def strict(te: Any, name: str) -> str:
    """Register an endpoint whose payload spec requires a `user_id`."""
    te.payload_specs.create(name=name, schema=SCHEMA)
    te.endpoints.create(**http_endpoint(name, payload_spec=name))
    return name


def test_job_is_created_replayed_listed_cancelled_and_awaited(te: Any, strict: str) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    job = te.jobs.create(endpoint=strict, trigger="DELAYED", idempotency_key="k", run_at=at, input=INPUT)
    assert (job["status"], replayed(job)) == ("ACTIVE", False)
    assert datetime.fromisoformat(job["run_at"]) == at
    again = te.jobs.create(endpoint=strict, trigger="DELAYED", idempotency_key="k", run_at=at, input=INPUT)
    assert (again["job_id"], replayed(again)) == (job["job_id"], True)
    assert (request_id(again) or "").startswith("req_")
    assert te.jobs.get(job["job_id"])["input"] == INPUT
    found = te.jobs.list(endpoint=strict, trigger="DELAYED", created_after=at - timedelta(hours=2))
    assert [each["job_id"] for each in found] == [job["job_id"]]
    assert te.jobs.cancel(job["job_id"], if_running="request")["status"] == "RETIRED"
    assert te.wait(job["job_id"], timeout=60)["status"] == "CANCELLED"
    assert te.wait(job["execution"]["execution_id"], timeout=60)["status"] == "CANCELLED"
    assert te.metrics.metrics().startswith("#")


def test_conditional_requests_send_the_etag(te: Any, name: str) -> None:
    config = te.configs.create(name=name, values={"a": 1})
    known = etag(te.configs.get(name))
    with pytest.raises(NotModifiedError):
        te.configs.get(name, if_none_match=known)
    te.configs.replace(name, if_match=known, name=name, values={"a": 2})
    with pytest.raises(errors.PreconditionFailedError):
        te.configs.delete(name, if_match=known)
    assert te.configs.delete(name) is None
    assert config["values"] == {"a": 1}


def test_each_error_code_raises_its_class(te: Any, strict: str) -> None:
    with pytest.raises(errors.JobNotFoundError) as missing:
        te.jobs.get("job_none")
    assert isinstance(missing.value, errors.NotFoundError)
    assert (missing.value.status, missing.value.code, missing.value.retryable) == (404, "JOB_NOT_FOUND", False)
    assert (missing.value.request_id or "").startswith("req_")
    with pytest.raises(errors.InputValidationFailedError, match="/input") as refused:
        te.jobs.create(endpoint=strict, trigger="IMMEDIATE", input={"user_id": 7})
    assert refused.value.details[0]["pointer"] == "/input/user_id"
    again = pickle.loads(pickle.dumps(refused.value))
    assert (type(again), again.details, str(again)) == (type(refused.value), refused.value.details, str(refused.value))


@pytest.mark.parametrize("fault", ["lose", "drop", 502, 503])
def test_request_with_a_key_is_retried_and_executed_once(
    te: Any, network: FaultyNetwork, name: str, fault: str | int
) -> None:
    te.endpoints.create(**http_endpoint(name))
    network.clear()
    network.fail_next(fault, fault)
    job = te.jobs.create(endpoint=name, trigger="IMMEDIATE")
    assert len(network.requests) == 3
    assert len({each["key"] for each in network.requests}) == 1
    assert network.requests[0]["key"]
    assert replayed(job) is (fault == "lose")
    # POST /jobs/batch stores its idempotency key in another table, in the transaction that creates the jobs.
    network.fail_next(fault)
    assert (
        te.jobs.create_batch(
            jobs=[{"endpoint": name, "trigger": "DELAYED", "run_at": "2100-01-01T00:00:00Z", "idempotency_key": "b"}]
        )["items"][0]["status"]
        == 201
    )
    assert len(list(te.jobs.list(endpoint=name))) == 2


def test_request_without_a_key_is_not_repeated_after_a_lost_answer(te: Any, network: FaultyNetwork, name: str) -> None:
    te.configs.create(name=name, values={})
    network.clear()
    network.fail_next("lose")
    with pytest.raises(ConnectionFailedError) as lost:
        te.configs.replace(name, values={"a": 1})
    assert lost.value.may_have_been_done
    assert len(network.requests) == 1
    assert te.configs.get(name)["values"] == {"a": 1}


def test_pages_are_fetched_on_demand(te: Any, network: FaultyNetwork, name: str) -> None:
    te.endpoints.create(**http_endpoint(name))
    made = [te.jobs.create(endpoint=name, trigger="IMMEDIATE")["job_id"] for _ in range(5)][::-1]
    network.clear()
    listed = te.jobs.list(endpoint=name, limit=2)
    assert network.requests == []
    assert [job["job_id"] for job in listed] == made
    pages = list(listed.pages())
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [page.cursor is None for page in pages] == [False, False, True]
    later = te.jobs.list(endpoint=name, limit=2, cursor=pages[0].cursor)
    assert [job["job_id"] for job in later] == made[2:]
    network.clear()
    assert listed.first()["job_id"] == made[0]
    assert len(network.requests) == 1
    assert te.jobs.list(endpoint=f"{name}-none").first() is None
    with pytest.raises(errors.InvalidRequestError):
        list(te.jobs.list(cursor="forged"))


def test_service_holds_the_request_of_a_waiting_client(
    te: Any, network: FaultyNetwork, shared_api: Api, name: str
) -> None:
    te.endpoints.create(**http_endpoint(name))
    job = te.jobs.create(endpoint=name, trigger="DELAYED", run_at=datetime.now(UTC) + timedelta(hours=1))

    def end() -> None:
        eventually(lambda: any("/result" in each["path"] for each in network.requests))
        assert shared_api.post(f"/jobs/{job['job_id']}/cancel").status_code == 200

    ended, _ = at_once(lambda: te.wait(job["job_id"], timeout=60), end)
    assert ended["status"] == "CANCELLED"
    asked = [each["path"] for each in network.requests if each["method"] == "GET"]
    assert "wait=20s" in asked[1]
    assert len(asked) <= 5, "the client polls while the service holds its request"


def test_wait_polls_when_the_service_cannot_hold_the_request(
    te: Any, network: FaultyNetwork, shared_api: Api, name: str
) -> None:
    te.endpoints.create(**http_endpoint(name))
    job = te.jobs.create(endpoint=name, trigger="DELAYED", run_at=datetime.now(UTC) + timedelta(hours=1))
    network.clear()
    network.fail_next("", 503)

    def end() -> None:
        eventually(lambda: len(network.requests) >= 3)
        assert shared_api.post(f"/jobs/{job['job_id']}/cancel").status_code == 200

    ended, _ = at_once(lambda: te.wait(job["job_id"], timeout=60), end)
    assert ended["status"] == "CANCELLED"
    assert ["/result" in each["path"] for each in network.requests[:3]] == [False, True, False]


class Counting(AsyncClient):
    """Client that counts the requests which the service holds at the same time."""

    holding = most = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_held = asyncio.Event()

    async def _send(self, call: Any, retries: Retries) -> Any:
        held = call.held_seconds > 0
        self.holding += held
        self.most = max(self.most, self.holding)
        if held:
            self.is_held.set()
        try:
            return await super()._send(call, retries)
        finally:
            self.holding -= held


def test_concurrent_waits_leave_connections_to_other_calls(address: str, shared_api: Api, name: str) -> None:
    async def wait_and_cancel() -> list[tuple[str, int]]:
        found = []
        async with Counting(address, shared_api.key, connections=2) as te:
            await te.endpoints.create(**http_endpoint(name))
            for _ in range(2):
                job = await te.jobs.create(
                    endpoint=name, trigger="DELAYED", run_at=datetime.now(UTC) + timedelta(hours=1)
                )
                waits = [asyncio.create_task(te.wait(job["job_id"], timeout=60)) for _ in range(3)]
                await te.is_held.wait()
                await te.jobs.cancel(job["job_id"])
                found += [(execution["status"], te.most) for execution in await asyncio.gather(*waits)]
                te.most = 0
                te.is_held.clear()
        return found

    assert asyncio.run(wait_and_cancel()) == [("CANCELLED", 1)] * 6


def test_wait_ends_at_its_timeout(te: Any, name: str) -> None:
    te.endpoints.create(**http_endpoint(name))
    job = te.jobs.create(endpoint=name, trigger="IMMEDIATE")
    with pytest.raises(WaitTimeoutError, match="; the execution continues"):
        te.wait(job["job_id"], timeout=0.3)
    with pytest.raises(errors.ExecutionNotFoundError):
        te.wait("exec_none")
    with pytest.raises(ValueError, match="must begin with exec_ or job_"):
        te.wait(name)


def test_name_is_percent_encoded_in_the_path(te: Any, network: FaultyNetwork) -> None:
    with pytest.raises(errors.BreakerNotFoundError):
        te.breakers.get("kafka:a.example:9092,b~1")
    assert network.requests[-1]["path"] == "/breakers/kafka%3Aa.example%3A9092%2Cb~1"


def test_api_key_overrides_a_password_in_netrc(
    te: Any, network: FaultyNetwork, shared_api: Api, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else")
    monkeypatch.setenv("NETRC", str(netrc))
    te.configs.list(limit=1).first()
    assert network.requests[-1]["authorization"] == f"Bearer {shared_api.key}"


def test_closed_client_raises_and_sends_nothing(te: Any, network: FaultyNetwork) -> None:
    te.health.live()
    te.close()
    te.close()
    with pytest.raises(RuntimeError, match="closed"):
        te.health.live()
    assert len(network.requests) == 1


def test_unknown_error_code_is_a_plain_api_error() -> None:
    error = ApiError("jobs.get", 418, "TEAPOT", "short and stout")
    assert (error.code, error.details) == ("TEAPOT", [])
