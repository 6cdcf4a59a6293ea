"""Records: keys, values and headers, and a lost confirmation does not produce a second record."""

import asyncio
import json

import pytest

import tests.worker_environment  # noqa: F401 - first
from app.dev.servers import Tansu
from tests.contract.dispatch.dispatching import TRACEPARENT, identity, run
from tests.contract.dispatch.kafka.deliveries import dispatcher, read, send, spec
from tests.contract.dispatch.lossy import LossyProxy


def test_record_has_key_value_headers_and_identity(kafka, topic):
    headers = {"ce-type": "order.é", "": "empty"}
    output = send(
        kafka.bootstrap,
        topic,
        identity(attempt=2),
        key_template="k1",
        value_template={"ä": [1, 2.5, None]},
        headers=headers,
    )
    assert output == {"partition": 0, "offset": 0}
    (record,) = read(kafka.bootstrap, topic, 1)
    assert (record.key(), json.loads(record.value())) == (b"k1", {"ä": [1, 2.5, None]})
    assert dict(record.headers()) == {
        "ce-type": "order.é".encode(),
        "": b"empty",
        "te-idempotency-key": b"exec_1",
        "te-job-id": b"job_1",
        "te-execution-id": b"exec_1",
        "te-attempt": b"2",
        "te-scheduled-at": b"2026-03-15T10:00:00.123Z",
        "traceparent": TRACEPARENT.encode(),
    }


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({}, None, b'{"a":1}'),
        ({"key_template": None, "value_template": None}, None, None),
        ({"key_template": "", "value_template": ""}, b"", b'""'),
        ({"key_template": "k", "value_template": "text"}, b"k", b'"text"'),
        ({"key_template": 7, "value_template": [1]}, b"7", b"[1]"),
        ({"key_template": {"é": True}, "value_template": 0}, '{"é":true}'.encode(), b"0"),
    ],
)
def test_keys_and_values_are_encoded(kafka, topic, given, key, value):
    raw = spec(kafka.bootstrap, topic) | given
    run(dispatcher(), lambda producers: producers.send(raw, identity()))
    (record,) = read(kafka.bootstrap, topic, 1)
    assert (record.key(), record.value()) == (key, value)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_acks_setting_works_with_each_broker(bootstrap, acks):
    output = send(bootstrap, f"acks-{acks}", acks=acks)
    assert isinstance(output["partition"], int)
    assert isinstance(output["offset"], int) is (acks != "0")


@pytest.mark.parametrize("timeout_ms", [1200, 2300])
def test_first_record_of_a_producer_is_confirmed_within_a_short_timeout(kafka, topic, timeout_ms):
    """An idempotent producer needs up to a second before its first record."""
    short = spec(kafka.bootstrap, topic, timeout_ms=timeout_ms)
    assert run(dispatcher(), lambda producers: producers.send(short, identity()))["offset"] == 0


class BehindProxy(Tansu):
    """A broker that advertises the port of a proxy."""

    def __init__(self, proxy_port: int) -> None:
        super().__init__()
        self._proxy_port = proxy_port

    def _command(self, port: int) -> list[str]:
        command = super()._command(port)
        command[command.index("--advertised-listener-url") + 1] = f"tcp://127.0.0.1:{self._proxy_port}"
        return command


@pytest.mark.parametrize(
    ("fields", "resends"),
    [({"acks": "1"}, False), ({"acks": "all", "timeout_ms": 2000}, False), ({"acks": "all"}, True)],
)
def test_lost_confirmation_does_not_write_the_record_twice_in_one_attempt(fields, resends):
    async def main(producers):
        with LossyProxy(0) as proxy, BehindProxy(proxy.port) as broker:
            proxy.redirect(broker.port)
            await asyncio.to_thread(broker.create_topic, "t")
            proxy.loses_answer_to = b"unconfirmed"
            sending = producers.send(spec(broker.bootstrap, **fields), identity("unconfirmed"))
            (outcome,) = await asyncio.gather(sending, return_exceptions=True)
            last = await producers.send(spec(broker.bootstrap), identity("last"))
            records = await asyncio.to_thread(read, broker.bootstrap, "t", last["offset"] + 1)
        return outcome, [dict(record.headers())["te-idempotency-key"] for record in records]

    outcome, keys = run(dispatcher(), main)
    assert keys == [b"unconfirmed", b"last"]
    if resends:  # the broker reports a duplicate, without the offset of the first record
        assert outcome == {"partition": 0, "offset": None}
    else:
        assert (outcome.type, outcome.permanent, outcome.may_have_been_delivered) == ("BROKER_ERROR", False, True)
