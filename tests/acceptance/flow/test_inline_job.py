"""Promises of a registered endpoint, all held by jobs with a URL."""

import signal
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text
from task_executor_receiver import VerificationError, Verifier

from app.dev.process.child import freeze, signal_all
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.jobs import deliver_one, wait_for_end
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

MIN_RESULTS = 10  # of a breaker's default
OF_HOST = "2"
SECRET = "whsec_c2hhcmVkIGJ5IHNlcnZpY2UgYW5kIHJlY2VpdmVy"
PRUNE = ("flask", "--app", "app", "prune", "--older-than", "1ms", "--yes")


def test_job_with_a_url_keeps_every_promise_of_an_endpoint(
    stack: Stack, api: Api, database: Database, receiver: Receiver
) -> None:
    stack.web()
    stack.scheduler(**SHORT_LEASE)
    worker = stack.worker(**SHORT_LEASE, TE_CONNECTIONS_PER_HOST=OF_HOST)
    check_egress_guard(api)
    check_breaker_and_redrive(api, receiver)
    check_connections_of_the_host(api, receiver)
    check_signature(api, receiver)
    check_fence(stack, api, receiver, worker)
    check_pruning(stack, api, database)


def send(api: Api, url: str, body: Any = None, **fields: Any) -> str:
    """Create a job with a URL, and return its execution."""
    execution_id: str = api.post("/jobs", {"url": url, "body": body} | fields)["execution"]["execution_id"]
    return execution_id


def wait_for_reason(api: Api, execution_id: str, reason: str) -> None:
    path = f"/executions/{execution_id}/explain"
    eventually(lambda: api.get(path)["reason"] == reason, what=f"the explanation {reason}")


def check_egress_guard(api: Api) -> None:
    ended = wait_for_end(api, send(api, "http://169.254.169.254/latest/meta-data"))
    assert ended["status"] == "FAILED"
    assert "egress policy" in ended["last_error"]["message"]


def check_breaker_and_redrive(api: Api, receiver: Receiver) -> None:
    """The breaker of the host opens for all jobs with a URL, and for no registered endpoint."""
    url = receiver.url("/broken/inline")
    failed = [send(api, url, {"n": number}) for number in range(MIN_RESULTS)]
    for execution_id in failed:
        assert wait_for_end(api, execution_id)["status"] == "FAILED"
    (breaker,) = eventually(lambda: api.get("/breakers", state="open")["items"], what="the open breaker")
    assert breaker["target"].endswith("~inline")
    waiting = send(api, receiver.url("/ok/inline"))
    wait_for_reason(api, waiting, "BREAKER_OPEN")
    deliver_one(api, receiver, "named")
    receiver.release("/broken/inline")
    api.post(f"/breakers/{quote(breaker['target'], safe='')}/close")
    assert wait_for_end(api, waiting)["status"] == "SUCCESS"

    (letter,) = [each for each in api.items("/dead-letters") if each["execution_id"] == failed[0]]
    api.post(f"/dead-letters/{letter['letter_id']}/redrive", {})
    assert wait_for_end(api, failed[0])["status"] == "SUCCESS"
    check_records(api, failed[0])
    sent = receiver.wait_for(MIN_RESULTS + 1, path="/broken/inline")
    assert [each.json for each in sent if each.headers["Idempotency-Key"] == failed[0]] == [{"n": 0}] * 2


def check_records(api: Api, execution_id: str) -> None:
    path = f"/executions/{execution_id}"
    execution = api.get(path)
    assert (execution["input"], execution["endpoint"][:7]) == ({"body": {"n": 0}}, "inline-")
    assert [each["status"] for each in api.get(f"{path}/attempts")["items"]] == ["SUCCESS", "FAILED"]
    steps = [step["to"] for step in api.get(f"{path}/history")["items"]]
    assert steps == ["QUEUED", "RUNNING", "FAILED", "QUEUED", "RUNNING", "SUCCESS"]
    assert len(api.get(f"{path}/logs")["items"]) >= 2
    assert api.get(f"{path}/explain")["reason"] == "SUCCEEDED"


def check_connections_of_the_host(api: Api, receiver: Receiver) -> None:
    """Jobs of three definitions share the connections of a worker to their host, and limits of an endpoint hold."""
    path = "/held/inline"
    held = [send(api, receiver.url(path), headers={"X-Number": f"{number}"}) for number in range(3)]
    receiver.wait_for(int(OF_HOST), path=path)
    other_host = receiver.url("/ok/other-host").replace("127.0.0.1", "localhost")
    assert wait_for_end(api, send(api, other_host))["status"] == "SUCCESS"
    assert len(receiver.wait_for(0, path=path)) == int(OF_HOST)
    receiver.release(path)
    assert [wait_for_end(api, execution_id)["status"] for execution_id in held] == ["SUCCESS"] * 3

    limited = "/held/limited"
    first = send(api, receiver.url(limited))
    receiver.wait_for(1, path=limited)
    name = api.get(f"/executions/{first}")["endpoint"]
    api.request("PATCH", f"/endpoints/{name}", json={"limits": {"max_in_flight": 1}}).raise_for_status()
    second = send(api, receiver.url(limited))
    wait_for_reason(api, second, "CONCURRENCY_LIMITED")
    receiver.release(limited)
    assert wait_for_end(api, second)["status"] == "SUCCESS"


def check_signature(api: Api, receiver: Receiver) -> None:
    """The receiver's package accepts the delivery by the secret, and refuses another body."""
    api.post("/secrets", {"name": "signed", "value": SECRET})
    path = "/ok/inline-signed"
    execution_id = send(api, receiver.url(path), {"n": 7}, signing={"secret": "{{secret.signed}}"})
    assert wait_for_end(api, execution_id)["status"] == "SUCCESS"
    request = receiver.wait_for(1, path=path)[0]  # a starved worker may lose its short lease, and another sends again
    delivery = Verifier([SECRET]).verify(request.headers.items(), request.body)
    assert (delivery.execution_id, delivery.attempt, delivery.json()) == (execution_id, 1, {"n": 7})
    with pytest.raises(VerificationError):
        Verifier([SECRET]).verify(request.headers.items(), request.body + b" ")


def check_fence(stack: Stack, api: Api, receiver: Receiver, frozen: Any) -> None:
    """The result of a frozen worker changes nothing."""
    path = "/held/fence"
    execution_id = send(api, receiver.url(path), retry_policy={"max_attempts": 3})
    receiver.wait_for(1, path=path)
    pids = freeze(frozen.pid)
    receiver.release(path)
    stack.worker(**SHORT_LEASE)
    ended = wait_for_end(api, execution_id)
    assert (ended["status"], ended["attempt_count"]) == ("SUCCESS", 2)
    signal_all(pids, signal.SIGCONT)
    assert frozen.wait(ENDED_SECONDS) not in {None, 0}, frozen.tail()
    assert api.get(f"/executions/{execution_id}") == ended
    assert {each.headers["Idempotency-Key"] for each in receiver.wait_for(2, path=path)} == {execution_id}


def check_pruning(stack: Stack, api: Api, database: Database) -> None:
    """Unused definitions are deleted; an open dead letter, which may be redriven, keeps its definition."""
    named = {each["endpoint"] for each in api.items("/dead-letters")}
    assert len({name for name in named if name.startswith("inline-")}) == 2  # the broken URL, the forbidden host
    database.fetch(text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours'"))
    stack.run(PRUNE)
    kept = {each["name"] for each in api.items("/endpoints", inline="true")}
    assert kept == named
