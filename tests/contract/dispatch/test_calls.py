"""Calls of Python functions that each of many concurrent deliveries makes, for transports that send them together."""

import asyncio
import dataclasses
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.kafka import KafkaDispatcher
from actors.dispatch.network import Network
from actors.dispatch.redis_stream import RedisStreamDispatcher
from app.dev.servers import Tansu, Valkey
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import Opening, identity, rendered, run
from tests.job_costs import calls_of_this_thread, calls_per_job, common

TOGETHER = 100
FIELDS = {"order": "17", "tenant": "a"}
MAX_REDIS_CALLS, MAX_KAFKA_CALLS = 57, 48


def calls_per_delivery(open_: Callable[[Network], Dispatcher], type_: EndpointType, spec: Mapping[str, Any]) -> int:
    async def main(dispatcher: Dispatcher) -> int:
        ready = rendered(type_, dict(spec))

        async def send_together() -> Counter[str]:
            sending = [dispatcher.send(ready, identity(uuid.uuid4().hex)) for _ in range(TOGETHER)]
            with calls_of_this_thread() as counts:
                await asyncio.gather(*sending)
            return counts

        await send_together()  # connects
        return calls_per_job(common([await send_together() for _ in range(3)]), TOGETHER)

    return run(dataclasses.replace(Opening(open_), per_host=1), main)


def test_append_to_a_redis_stream_makes_few_calls(valkey: Valkey) -> None:
    spec = {"redis_url": valkey.url, "stream": "calls", "fields_template": FIELDS}
    assert calls_per_delivery(RedisStreamDispatcher, EndpointType.REDIS_STREAM, spec) <= MAX_REDIS_CALLS


def test_kafka_record_makes_few_calls(kafka: Tansu) -> None:
    kafka.create_topic("calls")
    spec = {"bootstrap_servers": kafka.bootstrap, "topic": "calls", "value_template": FIELDS}
    assert calls_per_delivery(KafkaDispatcher, EndpointType.KAFKA, spec) <= MAX_KAFKA_CALLS
