"""Time limit of an attempt to send, and how far the attempt got: the same for every transport."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from actors.dispatch.base import Identity
from app.queue.executions.execution_model import DeliveryError, NotSentError

T = TypeVar("T")


@dataclass(slots=True)
class Progress:
    """How far an attempt got within its time."""

    timeout_ms: int
    identity: Identity
    is_sent: bool = False  # from now on the receiver may have seen it

    def begin_sending(self) -> None:
        """Note that the first byte follows; raises NotSentError when it must not be sent any more."""
        if not self.identity.permission.may_send():
            raise NotSentError("its claim is not held any more, or it is too late")
        self.is_sent = True

    def timed_out(self, missing: str, *, unsent: str = "no connection could be made", quote: str = "") -> DeliveryError:
        """Make the error of an attempt whose time is up: what was `missing`, or why it was not even sent."""
        message = f"{missing if self.is_sent else unsent} within {self.timeout_ms} ms"
        return DeliveryError("TIMEOUT", message, quote=quote, may_have_been_delivered=self.is_sent)


async def bounded(
    timeout_ms: int,
    identity: Identity,
    explain: Callable[[Exception, Progress], Exception],
    send: Callable[[Progress], Awaitable[T]],
) -> T:
    """Bound an attempt to send; what ends it early is raised as `explain` puts it, a TimeoutError when its time is up.

    A DeliveryError and a NotSentError say already what they mean.
    """
    progress, soft_ms, timer = Progress(timeout_ms, identity), identity.soft_limit_ms, None
    if soft_ms is not None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(soft_ms / 1000, identity.permission.pass_soft_limit, soft_ms)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await send(progress)
    except (DeliveryError, NotSentError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever goes wrong on the way is a failed attempt
        raise explain(error, progress) from None
    finally:
        if timer:
            timer.cancel()
