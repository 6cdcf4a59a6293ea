"""Outcome of a Kafka record: what an error, or the lack of a confirmation, means for the attempt."""

from confluent_kafka import KafkaError, KafkaException

from actors.dispatch.kafka_producer import ProducerFailedError
from actors.dispatch.send_progress import Progress
from app.queue.executions.execution_model import DeliveryError

_AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001
# Another attempt would meet the same answer.
_PERMANENT = _AUTHENTICATION | {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError._INVALID_ARG,  # noqa: SLF001
}
# The record is in the leader's log already.
_APPENDED = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def failure(error: Exception, progress: Progress, last_error: KafkaError | None) -> Exception:
    """Return the error for a record without a report; `last_error` is the last that the producer met."""
    if isinstance(error, TimeoutError):
        return timed_out(progress, last_error)
    if isinstance(error, KafkaException):
        return broker_error(error.args[0])
    if isinstance(error, ProducerFailedError):
        message = f"the connection to these brokers failed: {error}"
        return DeliveryError("BROKER_ERROR", message, may_have_been_delivered=progress.is_sent)
    if isinstance(error, BufferError):
        return DeliveryError("BROKER_ERROR", "too many records wait for these brokers")
    if isinstance(error, TypeError | ValueError):
        message = f"librdkafka cannot take the record: {type(error).__name__}"
        return DeliveryError("BROKER_ERROR", message, permanent=True)
    return error


def timed_out(progress: Progress, last_error: KafkaError | None) -> DeliveryError:
    """Make the error of a record that was not confirmed in time."""
    if last_error is not None and last_error.code() in _AUTHENTICATION:
        return broker_error(last_error)
    quote = f"; last error: {last_error.str()}" if last_error is not None else ""
    missing = "no confirmation came"
    return progress.timed_out(missing, unsent=missing, quote=quote)


def broker_error(error: KafkaError, partition: int | None = None) -> DeliveryError:
    """Make the error of what librdkafka or a broker says; the partition is known once the record was on its way."""
    # A broker's answer has a positive code, and says when the record was taken all the same. A failure of our side of
    # the connection leaves it open once the record was on its way.
    is_open = error.code() in _APPENDED or (error.code() < 0 and partition is not None)
    return DeliveryError(
        "BROKER_ERROR",
        str(error.name()),
        quote=f": {error.str()}",
        permanent=error.code() in _PERMANENT,
        may_have_been_delivered=is_open,
    )
