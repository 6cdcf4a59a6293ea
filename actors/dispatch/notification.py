"""Notifications: a message to people, through each of an endpoint's channels.

A channel is a preset of the HTTP transport (`web_channels`) or mail (`mail_channels`). Connections, egress rules and
limits on answers are those of HTTP deliveries.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.channel_request import ERROR, Message
from actors.dispatch.http_outcome import failure
from actors.dispatch.mail_channels import MailChannels
from actors.dispatch.permission import Permission, Unconditional
from actors.dispatch.send_progress import Progress, bounded
from actors.dispatch.web_channels import WebChannels
from app.catalog.specs.channel_presets import PRESETS
from app.catalog.specs.channels import Parts, divide, server_of
from app.queue.executions.execution_model import DeliveryError

MAX_BODY = 65_536  # characters
# Kept of an attempt's time for everything beside its channels.
_RESERVE_SECONDS = 0.02


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of notifications."""
    return NotificationDispatcher(network)


class NotificationDispatcher:
    """Sends messages; everything but the constructor belongs to one event loop."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._web = WebChannels(network)
        self._mail = MailChannels(network)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send a message to each channel of a spec, one after the other; `timeout_ms` bounds all of them together.

        If one fails, the attempt has failed, and the next one sends to the channels that have not taken it.
        """
        urls = [spec["url"]] if isinstance(spec["url"], str) else list(spec["url"])
        timeout_ms = spec["timeout_ms"]
        # A turn is that of a channel, not of its host: one chat that hangs keeps no other one of the service waiting.
        async with self.network.turn(identity, timeout_ms, *sorted(urls)):
            send_all = partial(self._send_all, [_parts(url) for url in urls], spec)
            return await bounded(timeout_ms, identity, failure, send_all)

    async def sweep(self) -> None:
        """Do nothing: the HTTP client closes idle connections by itself."""

    async def close(self) -> None:
        """Close every connection."""
        self._web.close()

    async def _send_all(self, channels: Sequence[Parts], spec: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        loop, identity = asyncio.get_running_loop(), progress.identity
        until = loop.time() + progress.timeout_ms / 1000 - _RESERVE_SECONDS
        own = replace(identity, permission=_AskedOnce(identity.permission), soft_limit_ms=None)
        shown = [server_of(channel) for channel in channels]
        told = _told_before(shown, identity)
        failures: list[DeliveryError] = []
        for index, channel in enumerate(channels):
            if index in told:
                continue
            # No channel takes the time of the channels after it.
            seconds = max(_RESERVE_SECONDS / 2, (until - loop.time()) / (len(channels) - len(told)))
            sender = self._web if PRESETS[channel.scheme].requests else self._mail
            send = partial(sender.send, channel, _message(spec, f"{identity.execution_id}-{index}"))
            told[index] = {"channel": shown[index]}
            try:
                told[index]["status_code"] = await bounded(round(seconds * 1000), own, sender.explain, send)
            except DeliveryError as error:
                failures.append(error)
                told[index]["error"] = error.own_message
        in_order = [told[index] for index in range(len(channels))]
        if failures:
            raise _joint(failures, in_order)
        return {"channels": in_order}


class _AskedOnce(Unconditional):
    """Answer to whether the message may be sent; once it is yes, all channels get the message.

    A part of it cannot be handed back as if nothing was sent, though the breaker opens between two channels.
    """

    def __init__(self, permission: Permission) -> None:
        self._permission = permission
        self._is_begun = False

    def may_send(self) -> bool:
        """Ask, unless the answer was yes before."""
        self._is_begun = self._is_begun or self._permission.may_send()
        return self._is_begun


def _parts(url: str) -> Parts:
    try:
        return divide(url)
    except ValueError as error:
        raise DeliveryError(ERROR, str(error), permanent=True) from None


def _told_before(shown: Sequence[str], identity: Identity) -> dict[int, dict[str, Any]]:
    """Return by its place each channel that took the message at an earlier attempt, as far as that is known."""
    before = identity.history.channels
    if len(before) != len(shown):
        return {}
    told = {
        index: {"attempt": identity.attempt - 1, **was}
        for index, (channel, was) in enumerate(zip(shown, before, strict=True))
        if "error" not in was and was.get("channel") == identity.scrubber.text(channel)
    }
    return told if len(told) < len(shown) else {}


def _message(spec: Mapping[str, Any], key: str) -> Message:
    title, body = (text.encode(errors="replace").decode() for text in (spec["title"], spec["body"][:MAX_BODY]))
    title, body = " ".join(title.split()), body if body.strip() else ""
    if not (title or body):
        raise DeliveryError(ERROR, "the message is empty: neither a title nor a body", permanent=True)
    return Message(title, body, spec.get("severity", ""), key, spec.get("signing"))


def _joint(failures: list[DeliveryError], told: list[dict[str, Any]]) -> DeliveryError:
    """Make one error of the errors of several channels: it is tried again if one of them may be."""
    if len(told) == 1:
        return failures[0]
    worst = next((error for error in failures if not error.permanent), failures[0])
    waits = [error.retry_after_ms for error in failures if error.retry_after_ms is not None]
    return DeliveryError(
        worst.type,
        f"{len(failures)} of {len(told)} channels failed, the first one so: {failures[0].own_message}",
        permanent=worst.permanent,
        retry_after_ms=max(waits, default=None),
        may_have_been_delivered=len(failures) < len(told) or any(one.may_have_been_delivered for one in failures),
        extra={**{key: value for key, value in worst.extra.items() if key != "body"}, "channels": told},
    )
