"""Notifications: a message to people, through each of an endpoint's channels.

Apprise sends them, one thread for each message that is under way. What a channel's server says or not holds its thread
no longer than the attempt may take: then its connections are broken off (`channels.outlet`). Meanwhile a thread is left
for each other channel, however many hang.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Self

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.channels.channel_outcome import ERROR, failure, untold
from actors.dispatch.channels.outlet import CURRENT, Outlet
from actors.dispatch.send_progress import Progress, bounded
from app.catalog.specs.channels import server_of
from app.queue.executions.execution_model import DeliveryError

THREADS, THREADS_PER_CHANNEL = 32, 8  # THREADS beside the first one of each channel
PATIENCE_SECONDS = 10.0
MOST_BODY = 65_536  # characters
# Kept of an attempt's time for what it does beside waiting for its channels.
_RESERVE_SECONDS = 0.02


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of notifications."""
    return NotificationDispatcher(network)


class NotificationDispatcher:
    """Sends messages; everything but the constructor belongs to one event loop."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._turns = network.limited(THREADS_PER_CHANNEL, in_all=THREADS)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send a message to each channel of a spec, one after the other; `timeout_ms` bounds all of them together.

        If one fails, the attempt has failed, and the next one sends to those that have not taken it.
        """
        urls = [spec["url"]] if isinstance(spec["url"], str) else list(spec["url"])
        key, timeout_ms = tuple(sorted(urls)), spec["timeout_ms"]
        await self._turns.enter(key, self.network.patience(timeout_ms, PATIENCE_SECONDS), identity.begin)
        with _Turn(lambda: self._turns.leave(key)) as turn:
            await asyncio.to_thread(_prepare, urls)
            return await bounded(
                timeout_ms, identity, _explain, lambda progress: self._send_all(urls, spec, progress, turn)
            )

    async def sweep(self) -> None:
        """Do nothing: each message has connections of its own."""

    async def close(self) -> None:
        """Do nothing: no thread outlives the attempt that it belongs to by long."""

    async def _send_all(
        self, urls: list[str], spec: Mapping[str, Any], progress: Progress, turn: "_Turn"
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        until = loop.time() + progress.timeout_ms / 1000 - _RESERVE_SECONDS
        message = _message(spec)
        told = _told_before(urls, progress.identity)
        failures: list[DeliveryError] = []
        for index, url in enumerate(urls):
            if index in told:
                continue
            # None takes the time of those after it.
            seconds = max(_RESERVE_SECONDS / 2, (until - loop.time()) / (len(urls) - len(told)))
            one = _Message(self.network, loop, _shown(url), seconds, progress)
            try:
                told[index] = await one.send(url, message, turn)
            except DeliveryError as error:
                failures.append(error)
                told[index] = {"channel": one.channel, "error": error.own_message}
        in_order = [told[index] for index in range(len(urls))]
        if failures:
            raise _joint(failures, in_order)
        return {"channels": in_order}


class _Turn:
    """The turn of a message, given back once it has ended and so has each thread of it, which may be a little later."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._held = 0

    def __enter__(self) -> Self:
        self._held += 1
        return self

    def __exit__(self, *_exception: object) -> None:
        self._held -= 1
        if not self._held:
            self._leave()


class _Message:
    """A message on its way to one channel, on a thread of its own."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        channel: str,
        seconds: float,
        progress: Progress,
    ) -> None:
        self.channel = channel
        self._loop = loop
        self._seconds = seconds
        self._progress = progress
        self._outlet = Outlet(network, loop, seconds, self._begin)
        self._ended: asyncio.Future[bool | BaseException] = loop.create_future()

    async def send(self, url: str, message: tuple[str, str, str], turn: _Turn) -> dict[str, Any]:
        """Send it; its thread holds the turn too."""

        def run() -> None:
            result = self._run(url, message)
            with contextlib.suppress(RuntimeError):  # the loop may be gone when the process is about to end
                self._loop.call_soon_threadsafe(self._end, result, turn)

        turn.__enter__()
        try:
            threading.Thread(target=run, name="te-notify", daemon=True).start()
        except RuntimeError:
            turn.__exit__()
            raise DeliveryError(ERROR, "this worker can start no more threads") from None
        try:
            async with asyncio.timeout(self._seconds):
                result = await asyncio.shield(self._ended)
        except TimeoutError as error:
            result = error
        finally:
            self._outlet.close()
        if self._outlet.withdrawn is not None:
            raise self._outlet.withdrawn
        if result is not True:
            raise self._failure(None if isinstance(result, bool) else result)
        if not self._outlet.is_tried:
            raise untold(self.channel)
        answer = self._outlet.answer
        return {"channel": self.channel} | ({} if answer is None else {"status_code": answer.status})

    def _begin(self) -> None:
        # What has begun goes on, though its breaker opens or its time to begin passes: somebody has a part of it, so it
        # can't be handed back as if nothing was sent.
        if not self._progress.is_sent:
            self._progress.begin_sending()

    def _failure(self, error: BaseException | None) -> DeliveryError:
        return failure(self._outlet, self.channel, error, is_sent=self._progress.is_sent)

    def _run(self, url: str, message: tuple[str, str, str]) -> bool | BaseException:
        CURRENT.set(self._outlet)
        try:
            return bool(_plugins().notify(url, *message))
        except BaseException as error:  # noqa: BLE001 - whatever a library raises ends this message, and nothing else
            return error

    def _end(self, result: bool | BaseException, turn: _Turn) -> None:
        turn.__exit__()
        if not self._ended.done():
            self._ended.set_result(result)


def _prepare(urls: list[str]) -> None:
    """Import what sends to channels, which may take a second the first time; raises DeliveryError."""
    for url in urls:
        _plugins().class_of(url)


def _plugins() -> Any:
    try:
        return import_module("actors.dispatch.channels.plugins")
    except ImportError:
        raise DeliveryError(ERROR, "this worker has no Apprise: install task-executor[worker]") from None


def _shown(url: str) -> str:
    try:
        return server_of(url)
    except ValueError:
        return "a channel"


def _told_before(urls: Sequence[str], identity: Identity) -> dict[int, dict[str, Any]]:
    """Return by its place what took the message at an earlier attempt, as far as that is known."""
    before = identity.history.channels
    if len(before) != len(urls):
        return {}
    told = {
        index: {"attempt": identity.attempt - 1, **was}
        for index, (url, was) in enumerate(zip(urls, before, strict=True))
        if "error" not in was and was.get("channel") == identity.scrubber.text(_shown(url))
    }
    return told if len(told) < len(urls) else {}


def _message(spec: Mapping[str, Any]) -> tuple[str, str, str]:
    title, body = " ".join(spec["title"].split()), spec["body"][:MOST_BODY]
    if not (title or body.strip()):
        raise DeliveryError(ERROR, "the message is empty: neither a title nor a body", permanent=True)
    return title, body if body.strip() else title, spec.get("severity", "")


def _joint(failures: list[DeliveryError], told: list[dict[str, Any]]) -> DeliveryError:
    """Make one error of those of several channels: it is tried again if one of them may be."""
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


def _explain(error: Exception, progress: Progress) -> Exception:
    if isinstance(error, TimeoutError):
        return progress.timed_out("not all channels took the message")
    return DeliveryError(
        ERROR, f"unexpected {type(error).__name__} in the worker", may_have_been_delivered=progress.is_sent
    )
