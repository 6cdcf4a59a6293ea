"""Notifications: a message to people through each channel of an endpoint.

A channel is a preset of the HTTP transport or mail (`mail_channels`). Connections, egress rules and limits of answers
equal those of HTTP deliveries.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from actors.dispatch.base import Dispatcher, Identity, Permission, Unconditional
from actors.dispatch.channel_request import ERROR, Message, spec_of
from actors.dispatch.connector import Connector
from actors.dispatch.http import compose, failure, retry_after_ms
from actors.dispatch.http1.answer import AnswerReader
from actors.dispatch.http1.client import Client
from actors.dispatch.mail_channels import mail_failure, send_mail
from actors.dispatch.network import Network
from actors.dispatch.send_progress import Progress, bounded
from app.catalog.specs.channel_presets import PRESETS, Request
from app.catalog.specs.channels import Parts, divide, server_of
from app.queue.executions.execution_model import DeliveryError

MAX_BODY = 65_536  # characters
# Part of an attempt's time that its channels may not use.
_RESERVE_SECONDS = 0.02
# Errors that another attempt may not get again; a redirect is not followed and would repeat.
_TRANSIENT = frozenset({408, 409, 425, 429})


class NotificationDispatcher(Dispatcher):
    """Sends messages; everything but the constructor belongs to one event loop."""

    def __init__(self, network: Network) -> None:
        self._turns = network.turns
        self._client = Client(network)
        self._connector = Connector(network)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send a message to each channel of a spec in turn; `timeout_ms` bounds all of them together.

        The attempt fails if one channel fails; the next attempt sends only to the channels that have not accepted it.
        """
        urls = [spec["url"]] if isinstance(spec["url"], str) else list(spec["url"])
        timeout_ms = spec["timeout_ms"]
        # Turns are per channel, not per host: a hanging chat must not delay other chats of its service.
        async with self._turns.take(tuple(sorted(urls)), timeout_ms, identity.permission):
            send_all = partial(self._send_all, [_parts(url) for url in urls], spec)
            return await bounded(timeout_ms, identity, failure, send_all)

    async def close(self) -> None:
        self._client.close()

    async def _send_all(self, channels: Sequence[Parts], spec: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        loop, identity = asyncio.get_running_loop(), progress.identity
        until = loop.time() + progress.timeout_ms / 1000 - _RESERVE_SECONDS
        own = identity._replace(permission=_AskedOnce(identity.permission), soft_limit_ms=None)
        shown = [server_of(channel) for channel in channels]
        results = _accepted_before(shown, identity)
        failures: list[DeliveryError] = []
        for index, channel in enumerate(channels):
            if index in results:
                continue
            # A channel may not use the time of the channels after it.
            seconds = max(_RESERVE_SECONDS / 2, (until - loop.time()) / (len(channels) - len(results)))
            message = _message(spec, f"{identity.execution_id}-{index}")
            explain, send = failure, partial(self._send_web, channel, message)
            if not PRESETS[channel.scheme].requests:
                explain, send = mail_failure, partial(send_mail, self._connector, channel, message)
            results[index] = {"channel": shown[index]}
            try:
                results[index]["status_code"] = await bounded(round(seconds * 1000), own, explain, send)
            except DeliveryError as error:
                failures.append(error)
                results[index]["error"] = error.own_message
        in_order = [results[index] for index in range(len(channels))]
        if failures:
            raise _joint(failures, in_order)
        return {"channels": in_order}

    async def _send_web(self, channel: Parts, message: Message, progress: Progress) -> int:
        """Send a message over HTTP and return the status; raises DeliveryError, AnswerError or OSError."""
        request, spec = spec_of(channel, message)
        origin, content = compose(spec, progress.identity)
        return status_of(await self._client.exchange(origin, content, progress), request)


class _AskedOnce(Unconditional):
    """Permission that stays granted for all channels after the first grant.

    A partly sent message cannot be released as unsent, even if the breaker opens between two channels.
    """

    def __init__(self, permission: Permission) -> None:
        self._permission = permission
        self._is_begun = False

    def may_send(self) -> bool:
        self._is_begun = self._is_begun or self._permission.may_send()
        return self._is_begun


def _parts(url: str) -> Parts:
    try:
        return divide(url)
    except ValueError as error:
        raise DeliveryError(ERROR, str(error), permanent=True) from None


def _accepted_before(shown: Sequence[str], identity: Identity) -> dict[int, dict[str, Any]]:
    """Return the result of each channel that is known to have accepted the message before, by its place."""
    before = identity.history.channels
    if len(before) != len(shown):
        return {}
    results = {
        index: {"attempt": identity.attempt - 1, **was}
        for index, (channel, was) in enumerate(zip(shown, before, strict=True))
        if "error" not in was and was.get("channel") == identity.scrubber.text(channel)
    }
    return results if len(results) < len(shown) else {}


def _message(spec: Mapping[str, Any], key: str) -> Message:
    title, body = (text.encode(errors="replace").decode() for text in (spec["title"], spec["body"][:MAX_BODY]))
    title, body = " ".join(title.split()), body if body.strip() else ""
    if not (title or body):
        raise DeliveryError(ERROR, "the message is empty: neither a title nor a body", permanent=True)
    return Message(title, body, spec.get("severity", ""), key, spec.get("signing"))


def _joint(failures: list[DeliveryError], results: list[dict[str, Any]]) -> DeliveryError:
    """Combine the errors of several channels; the result is permanent only if all errors are."""
    if len(results) == 1:
        return failures[0]
    worst = next((error for error in failures if not error.permanent), failures[0])
    waits = [error.retry_after_ms for error in failures if error.retry_after_ms is not None]
    return DeliveryError(
        worst.type,
        f"{len(failures)} of {len(results)} channels failed, the first with: {failures[0].own_message}",
        permanent=worst.permanent,
        retry_after_ms=max(waits, default=None),
        may_have_been_delivered=len(failures) < len(results) or any(each.may_have_been_delivered for each in failures),
        extra={**{key: value for key, value in worst.extra.items() if key != "body"}, "channels": results},
    )


def status_of(answer: AnswerReader, request: Request) -> int:
    """Return the status of an answer that accepts the message; raises DeliveryError for other answers."""
    status, words = answer.status, str(answer.status)
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        if request.success is None or _contains(answer.text, request.success):
            return status
        words = f"{status}, and that it did not take the message"
    is_final = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRANSIENT
    raise DeliveryError(
        ERROR,
        f"the channel answered {words}",
        permanent=is_final,
        retry_after_ms=retry_after_ms(answer),
        extra={"status_code": status} | ({"body": answer.text} if answer.text else {}),
    )


def _contains(text: str, success: Mapping[str, Any]) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and all(found.get(name) == value for name, value in success.items())
