"""Which failures of a delivery count against the breaker of its target."""

from typing import Any

from confluent_kafka import KafkaError

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka import broker_error
from actors.sending import is_targets_fault
from app.queue.executions.execution_model import DeliveryError
from tests.cases import each_case


def answered(status: int) -> DeliveryError:
    return DeliveryError("HTTP_ERROR", "", permanent=status == 410, extra={"status_code": status, "body": ""})


def error(type_: str, **options: Any) -> DeliveryError:
    return DeliveryError(type_, "…", **options)


def kafka_error(code: int) -> DeliveryError:
    return broker_error(KafkaError(code))


@each_case(
    ("failure", "is_fault"),
    [
        *((answered(status), True) for status in (408, 429, 500, 502, 503, 599)),
        *((answered(status), False) for status in (200, 302, 400, 401, 404, 409, 410, 422)),
        (error("TIMEOUT"), True),
        (error("CONNECTION_ERROR"), True),
        (error("CONNECTION_ERROR", permanent=True), None),  # refused by the egress policy
        (error("STREAM_ERROR"), True),
        (error("STREAM_ERROR", permanent=True), None),  # such as WRONGTYPE: the fault of one endpoint's stream
        (error("TEMPLATE_RESOLUTION_FAILED", permanent=True), None),
        (error("INTERNAL_ERROR"), None),
        (kafka_error(KafkaError._TRANSPORT), True),  # noqa: SLF001
        (kafka_error(KafkaError.LEADER_NOT_AVAILABLE), True),
        (kafka_error(KafkaError.TOPIC_AUTHORIZATION_FAILED), None),
        (kafka_error(KafkaError.UNKNOWN_TOPIC_OR_PART), None),
        (kafka_error(KafkaError._UNKNOWN_TOPIC), None),  # noqa: SLF001
        (kafka_error(KafkaError._UNKNOWN_PARTITION), None),  # noqa: SLF001
    ],
)
def test_failure_counts_against_the_target_or_not(failure: DeliveryError, is_fault: bool | None) -> None:
    assert is_targets_fault(failure) is is_fault
