"""Time limit of an attempt to send, and its progress, for every transport."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from actors.dispatch.base import Identity
from app.queue.executions.execution_model import DeliveryError, NotSentError

T = TypeVar("T")


@dataclass(slots=True)
class Progress:
    """Progress of an attempt within its time."""

    timeout_ms: int
    identity: Identity
    is_sent: bool = False
    """True as soon as the receiver may have seen the delivery."""

    def begin_sending(self) -> None:
        """Record that the first byte follows; raises NotSentError if it must not be sent."""
        if not self.identity.permission.may_send():
            raise NotSentError("its claim is no longer held, or it is too late")
        self.is_sent = True

    def timed_out(self, missing: str, *, unsent: str = "no connection could be made", quote: str = "") -> DeliveryError:
        """Return the error after the time limit: `missing` if the attempt was sent, else `unsent`."""
        message = f"{missing if self.is_sent else unsent} within {self.timeout_ms} ms"
        return DeliveryError("TIMEOUT", message, quote=quote, may_have_been_delivered=self.is_sent)


async def bounded(
    timeout_ms: int,
    identity: Identity,
    explain: Callable[[Exception, Progress], Exception],
    send: Callable[[Progress], Awaitable[T]],
) -> T:
    """Send within a time limit; `explain` converts each error except DeliveryError and NotSentError.

    At the time limit that error is a TimeoutError.
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
    except Exception as error:  # noqa: BLE001 - any error is a failed attempt
        raise explain(error, progress) from None
    finally:
        if timer:
            timer.cancel()
