"""Deliveries of a job continue the trace of the request that created the job, even when no process records spans."""

import hashlib

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.tracing.conftest import Attempting, Deliver
from tests.integration.client import Api

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
LONG_STATE = ",".join(f"k{n}={'x' * 200}" for n in range(3))
ONCE = {"trigger": "IMMEDIATE", "idempotency_key": "once"}
EVERY_DAY = {"trigger": "INTERVAL", "every": "1d"}


@pytest.mark.parametrize("flags", ["01", "00"], ids=["sampled", "not sampled"])
def test_delivery_has_the_trace_of_the_request(deliver: Deliver, flags: str) -> None:
    sent = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}", "tracestate": "rojo=00f067aa0ba902b7,congo=t61"}
    (arrived,) = deliver(f"continues-{flags}", ONCE, sent)
    assert {name: arrived[name] for name in sent} == sent


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
        {"traceparent": f"{PARENT},{PARENT}"},
        {"traceparent": PARENT.upper()},
        {"traceparent": PARENT + "-more"},
        {"traceparent": f"01-{TRACE}-{SPAN}-01-{'x' * 200}"},
        {"tracestate": "rojo=1"},
        {},
    ],
    ids=["zero", "two", "upper case", "too long", "endless", "state alone", "none"],
)
def test_invalid_traceparent_yields_a_new_trace_for_the_execution(
    deliver: Deliver, database: Database, request: pytest.FixtureRequest, headers: dict[str, str]
) -> None:
    (arrived,) = deliver("-".join(request.node.callspec.id.split()), ONCE, headers)
    own = hashlib.blake2b(arrived["idempotency-key"].encode(), digest_size=16).hexdigest()
    assert arrived["traceparent"].startswith(f"00-{own}-")
    assert arrived["traceparent"].endswith("-01")
    assert "tracestate" not in arrived
    assert database.fetch(text("SELECT trace_context FROM jobs"))[0].trace_context is None


@pytest.mark.parametrize("state", [LONG_STATE, ",".join(f"k{n}=1" for n in range(33)), "a=1,a=2", "not a state"])
def test_invalid_tracestate_keeps_the_traceparent(deliver: Deliver, state: str) -> None:
    name = f"state-{hashlib.blake2b(state.encode(), digest_size=4).hexdigest()}"
    (arrived,) = deliver(name, ONCE, {"traceparent": PARENT, "tracestate": state})
    assert arrived["traceparent"] == PARENT
    assert "tracestate" not in arrived


def test_each_execution_of_a_repeating_job_has_its_own_trace(deliver: Deliver, api: Api, database: Database) -> None:
    (arrived,) = deliver("ticks", EVERY_DAY, {"traceparent": PARENT, "tracestate": "rojo=1"})
    own = hashlib.blake2b(arrived["idempotency-key"].encode(), digest_size=16).hexdigest()
    assert arrived["traceparent"].split("-")[1] == own
    assert "tracestate" not in arrived
    (job,) = database.fetch(text("SELECT job_id, trace_context FROM jobs"))
    assert job.trace_context == f"link {PARENT} rojo=1"
    changed = f"00-{TRACE[::-1]}-{SPAN}-00"
    version = api.put(f"/jobs/{job.job_id}", {"name": "new"}, headers={"traceparent": changed}).json["job_id"]
    found = database.fetch(text("SELECT trace_context FROM jobs WHERE job_id = :id"), {"id": version})
    assert [row.trace_context for row in found] == [f"link {changed}"], (
        "the link is not to the request that created this version"
    )


def test_manual_run_and_retry_continue_the_trace_of_their_request(
    deliver: Deliver, attempt: Attempting, api: Api
) -> None:
    sent = {"traceparent": PARENT, "tracestate": "rojo=1"}
    (extra,) = deliver(
        "by-hand", EVERY_DAY, {"traceparent": f"00-{TRACE[::-1]}-{SPAN}-01"}, "status/400", run_headers=sent
    )
    assert {name: extra[name] for name in sent} == sent

    again = {"traceparent": f"00-{TRACE[::-1]}-{SPAN}-00"}
    retried = f"/executions/{extra['idempotency-key']}/retry"
    assert api.post(retried, headers=again).status_code == 200
    *_, second = attempt("/status/400/traced-by-hand", 1, in_all=2)
    assert (second["traceparent"], second.get("tracestate")) == (again["traceparent"], None)

    assert api.post(retried).status_code == 200
    *_, third = attempt("/status/400/traced-by-hand", 1, in_all=3)
    assert third["traceparent"] == again["traceparent"], "a retry without a trace did not keep the latest trace"
