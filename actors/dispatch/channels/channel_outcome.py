"""Outcome of a message to a channel: what the end of it means for the attempt."""

import os
import ssl
import time

from actors.dispatch.channels.outlet import Answer, Outlet
from actors.dispatch.egress import EgressRefusedError
from actors.dispatch.http_outcome import retry_after_ms
from app.queue.executions.execution_model import DeliveryError

ERROR = "NOTIFICATION_ERROR"
# Of HTTP: what another attempt may find changed. Of SMTP, 4xx means that and 5xx does not.
_PASSING = frozenset({408, 409, 425, 429})
_REDIRECTS_BEGIN, _ERRORS_BEGIN, _SERVERS_FAULT = 300, 400, 500


def failure(outlet: Outlet, channel: str, error: BaseException | None, *, is_sent: bool) -> DeliveryError:
    """Explain why a message was not taken: by what its server said last, or by what kept it from being reached.

    `error` is what ended the thread, None where Apprise only said no. Its words are not repeated: they may show a URL.
    """
    if isinstance(error, DeliveryError):
        return error
    if outlet.unreached is not None:
        return _unreached(*outlet.unreached)
    answer, is_mail = outlet.answer, channel.startswith("mailto")
    if answer is not None and answer.status >= (_ERRORS_BEGIN if is_mail else _REDIRECTS_BEGIN):
        return _refused(answer, channel, is_mail=is_mail, is_sent=is_sent)
    if outlet.is_over:
        error = TimeoutError()
    if outlet.is_hasty:
        message = (
            f"{channel} takes one message after the other, with waits in between: they take longer than timeout_ms"
        )
        return DeliveryError("TIMEOUT", message, may_have_been_delivered=is_sent)
    if error is None and not outlet.is_tried:
        return untold(channel)
    type_, message = _said_nothing(error, channel, has_answer=answer is not None)
    said = {"body": answer.text} if answer is not None and answer.text and error is None else {}
    return DeliveryError(type_, message, may_have_been_delivered=is_sent, extra=said)


def untold(channel: str) -> DeliveryError:
    """Explain that Apprise has not even tried: the next attempt would meet the same."""
    message = f"Apprise found nothing to send to {channel}: the URL names nobody, or nobody whom such a message is for"
    return DeliveryError(ERROR, message, permanent=True)


def _said_nothing(error: BaseException | None, channel: str, *, has_answer: bool) -> tuple[str, str]:
    if isinstance(error, TimeoutError):
        return "TIMEOUT", f"{channel} took too long"
    if error is not None and not isinstance(error, OSError):
        return ERROR, f"unexpected {type(error).__name__} in Apprise"
    if error is None and has_answer:
        return ERROR, f"{channel} did not take the message"
    return "CONNECTION_ERROR", f"the connection to {channel} broke"


def _unreached(server: str, error: OSError) -> DeliveryError:
    refused = isinstance(error, EgressRefusedError)
    if isinstance(error, TimeoutError):
        return DeliveryError("TIMEOUT", f"no connection to {server} could be made in time")
    if isinstance(error, ssl.SSLError):
        return DeliveryError("CONNECTION_ERROR", f"the TLS handshake with {server} failed: {error.reason}")
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else (error.strerror or str(error))
    return DeliveryError("CONNECTION_ERROR", f"cannot connect to {server}: {reason}", permanent=refused)


def _refused(answer: Answer, channel: str, *, is_mail: bool, is_sent: bool) -> DeliveryError:
    status = answer.status
    if is_mail:
        permanent, code = status >= _SERVERS_FAULT, "smtp_code"
    else:
        # A redirect is not followed, and leads elsewhere the next time as well.
        permanent, code = status < _SERVERS_FAULT and status not in _PASSING, "status_code"
    return DeliveryError(
        ERROR,
        f"{channel} answered {status}",
        permanent=permanent,
        retry_after_ms=retry_after_ms(answer.retry_after, time.time()),
        may_have_been_delivered=is_sent and not permanent,
        extra={code: status} | ({"body": answer.text} if answer.text else {}),
    )
