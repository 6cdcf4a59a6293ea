"""AsyncClient: the same operations, with the same retries, over aiohttp (the extra `async`)."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

from . import models
from .address import Address
from .answer import read
from .async_operations import AsyncService
from .async_transport import AsyncTransport
from .call import Call
from .drive import drive_async
from .exchange import Outcome, Pause, Retries, Send, exchange
from .registration import Change, Declarations, Declared, P, R
from .waiting import until_ended


class AsyncClient(AsyncService):
    """The service at an address: `await AsyncClient("https://te.example.org", key).jobs.create(…)`.

    Each event loop needs its own. Use it with `async with`, or close it.
    """

    def __init__(self, base_url: str, api_key: str, *, retries: Retries | None = None, connections: int = 100) -> None:
        """Connect to nothing yet; raises ValueError for an address or a key that cannot be one."""
        self._address = Address.of(base_url, api_key)
        self._retries = retries or Retries()
        self._transport = AsyncTransport(self._address, connections)
        self._declared = Declarations()
        # The other half is for all other calls: they would wait until the service lets go of one.
        self._most_held = connections // 2
        self._held = 0
        super().__init__(self)

    def __repr__(self) -> str:
        """Show where the service is, and no key."""
        return f"AsyncClient({self._address.base_url!r})"

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls raise RuntimeError from then on. Again it does nothing."""
        await self._transport.close()

    async def send(self, call: Call) -> Any:
        """Send a call, again if need be, and return its answer; raises TaskExecutorError."""
        return await self._send(call, self._retries)

    async def _send(self, call: Call, retries: Retries) -> Any:
        async def do(step: Send | Pause) -> Outcome:
            if isinstance(step, Send):
                return await self._transport.attempt(call, step.timeout)
            await asyncio.sleep(step.seconds)
            return None

        return read(call, await drive_async(exchange(call, retries, time.monotonic, time.time), do))

    async def wait(self, id_: str, /, *, timeout: float = 60.0) -> models.Execution:
        """Return an execution once it has ended; for a job's id its newest one.

        Raises WaitTimeoutError after `timeout` seconds: the execution goes on.
        """

        async def do(step: Call | Pause) -> Any:
            if isinstance(step, Call):
                return await (self._hold(step) if step.held_seconds else self.send(step))
            await asyncio.sleep(step.seconds)
            return None

        return await drive_async(until_ended(id_, timeout), do)

    async def _hold(self, call: Call) -> Any:
        """Send a call that the service holds, once, unless half of the connections have one: then return None."""
        if self._held >= self._most_held:
            return None
        self._held += 1
        try:
            return await self._send(call, replace(self._retries, most_tries=1))
        finally:
            self._held -= 1

    def endpoint(
        self,
        *,
        type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"] = "HTTP",  # noqa: A002 - as the service calls it
        name: str | None = None,
        **fields: Any,
    ) -> Callable[[Callable[P, R]], Declared[P, R]]:
        """Declare an endpoint whose input is the arguments of the function; `register` makes the service have it.

        `fields` are those of `endpoints.create`, `spec` above all. The name is that of the function, with hyphens.
        Raises TypeError for arguments without types of JSON, and ValueError for a name that is declared already.
        """

        def declare(function: Callable[P, R]) -> Declared[P, R]:
            given = {"name": name or function.__name__.strip("_").replace("_", "-"), "type": type}
            return self._declared.add(function, fields | given)

        return declare

    async def register(self, *, dry_run: bool = False) -> list[Change]:
        """Make the service have the declared endpoints and their payload specs, and return what was to change.

        What is as declared stays; what differs becomes a new version. A dry run reads only. Raises
        RegistrationConflictError, after which register again: what was done is done.
        """
        return await drive_async(self._declared.register(dry_run=dry_run), self.send)
