"""Web channels: messages over HTTP, by the client and with the headers of every HTTP delivery."""

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from actors.dispatch.base import Network
from actors.dispatch.channel_request import ERROR, Message, spec_of
from actors.dispatch.http import compose
from actors.dispatch.http1.answer import AnswerReader
from actors.dispatch.http1.client import Client
from actors.dispatch.http_outcome import failure, retry_after_ms
from actors.dispatch.send_progress import Progress
from app.catalog.specs.channel_presets import Request
from app.catalog.specs.channels import Parts
from app.queue.executions.execution_model import DeliveryError

# Another attempt may get another answer; a redirect is not followed, and would come again.
_TRANSIENT = frozenset({408, 409, 425, 429})


class WebChannels:
    """Sends messages to the channels that speak HTTP; belongs to one event loop."""

    def __init__(self, network: Network) -> None:
        self._client = Client(network)

    async def send(self, parts: Parts, message: Message, progress: Progress) -> int:
        """Send a message and return the status of the answer; raises DeliveryError, AnswerError or OSError."""
        request, spec = spec_of(parts, message)
        origin, content = compose(spec, progress.identity)
        answer = await self._client.exchange(origin, content, progress)
        return status_of(answer, request)

    def explain(self, error: Exception, progress: Progress) -> DeliveryError:
        """Explain why there was no answer."""
        return failure(error, progress)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()


def status_of(answer: AnswerReader, request: Request) -> int:
    """Return the status of an answer that says that the message was taken; raises DeliveryError for any other."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        raise _refused(answer)
    if request.success is not None and not _says(answer.text, request.success):
        raise _refused(answer, f"{answer.status}, and that it did not take the message")
    return answer.status


def _says(text: str, success: Mapping[str, Any]) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and all(found.get(name) == value for name, value in success.items())


def _refused(answer: AnswerReader, words: str = "") -> DeliveryError:
    status = answer.status
    is_final = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRANSIENT
    return DeliveryError(
        ERROR,
        f"the channel answered {words or status}",
        permanent=is_final,
        retry_after_ms=retry_after_ms(answer.retry_after, time.time()),
        extra={"status_code": status} | ({"body": answer.text} if answer.text else {}),
    )
