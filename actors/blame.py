"""Blame: whether a delivery that failed says something against its target, or for it."""

from confluent_kafka import KafkaError

from app.queue.executions.execution_model import DeliveryError

_SERVERS_FAULT = 500  # statuses from here on
_SENT_TOO_OFTEN = frozenset({408, 429})
_TRANSPORTS = frozenset({"TIMEOUT", "CONNECTION_ERROR", "BROKER_ERROR", "STREAM_ERROR"})
# One endpoint's topic: the cluster serves all others.
_TOPICS_FAULT = frozenset(
    KafkaError(code).name()
    for code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
)


def is_targets_fault(error: DeliveryError) -> bool | None:
    """Return whether the target failed; false where it answered as one that works, None where nothing was learnt.

    Any answer of HTTP tells that a host works, but for 5xx, 408 and 429. Of other transports, what another attempt
    would meet again is the endpoint's fault: its credentials, its stream, its topic.
    """
    status = error.extra.get("status_code")
    if isinstance(status, int):
        return status >= _SERVERS_FAULT or status in _SENT_TOO_OFTEN
    if error.type not in _TRANSPORTS or error.permanent or error.own_message in _TOPICS_FAULT:
        return None
    return True
