"""Outcome of an append to a Redis Stream that failed: what it means for the attempt."""

import os
import re

from actors.dispatch.resp.redis_target import CredentialsRefusedError
from actors.dispatch.resp.replies import RefusedError
from actors.dispatch.send_progress import Progress
from app.queue.executions.execution_model import DeliveryError

_NOT_ALLOWED = ("NOAUTH", "WRONGPASS", "NOPERM")
# Another attempt would meet the same answer. Redis before 7 wraps the error of a command in one of the script.
# Before version 7 an entry is there already where its note may not be written: each attempt would append one more.
_PERMANENT = re.compile(r"\b(WRONGTYPE|NOPERM|ACL failure|NOAUTH|WRONGPASS|CROSSSLOT|too many results to unpack)\b")


def failure(error: Exception, progress: Progress) -> DeliveryError:
    """Explain why there was no id of an entry."""
    if isinstance(error, TimeoutError):
        return progress.timed_out("no answer came")
    if isinstance(error, CredentialsRefusedError):
        return _refused("Redis refuses the credentials", error, permanent=True)
    if isinstance(error, RefusedError):
        return _refusal(error)
    if isinstance(error, OSError):
        doing = "the connection broke" if progress.is_sent else "cannot connect"
        reason = os.strerror(error.errno) if error.errno else str(error)
        return DeliveryError("CONNECTION_ERROR", f"{doing}: {reason}", may_have_been_delivered=progress.is_sent)
    # The text of an unforeseen exception may hold anything, also a secret: its type must do.
    return DeliveryError(
        "STREAM_ERROR", f"the delivery failed: {type(error).__name__}", may_have_been_delivered=progress.is_sent
    )


def _refusal(error: RefusedError) -> DeliveryError:
    """Make the error of an answer that is one: nothing was appended."""
    if error.is_passing:
        return _refused("Redis is not ready", error, permanent=False, type_="CONNECTION_ERROR")
    if str(error).startswith(_NOT_ALLOWED):
        return _refused("Redis refuses the credentials", error, permanent=True)
    return _refused("Redis answered with an error", error, permanent=_PERMANENT.search(str(error)) is not None)


def _refused(message: str, error: Exception, *, permanent: bool, type_: str = "STREAM_ERROR") -> DeliveryError:
    quote = f": {error}".replace("\0", "")
    return DeliveryError(type_, message, quote=quote, permanent=permanent)
