"""Client: the operations of the service, with retries, over requests."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

from . import models
from .address import Address
from .answer import read
from .call import Call
from .drive import drive
from .exchange import Outcome, Pause, Retries, Send, exchange
from .operations import Service
from .registration import Change, Declarations, Declared, P, R
from .transport import Transport
from .waiting import until_ended


class Client(Service):
    """The service at an address: `Client("https://te.example.org", key).jobs.create(endpoint=…, trigger=…)`.

    Threads may share one. Use it with `with`, or close it.
    """

    def __init__(self, base_url: str, api_key: str, *, retries: Retries | None = None, connections: int = 10) -> None:
        """Connect to nothing yet; raises ValueError for an address or a key that cannot be one."""
        self._address = Address.of(base_url, api_key)
        self._retries = retries or Retries()
        self._transport = Transport(self._address, connections)
        self._declared = Declarations()
        super().__init__(self)

    def __repr__(self) -> str:
        """Show where the service is, and no key."""
        return f"Client({self._address.base_url!r})"

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Close the connections; calls raise RuntimeError from then on. Again it does nothing."""
        self._transport.close()

    def send(self, call: Call) -> Any:
        """Send a call, again if need be, and return its answer; raises TaskExecutorError."""
        return self._send(call, self._retries)

    def _send(self, call: Call, retries: Retries) -> Any:
        def do(step: Send | Pause) -> Outcome:
            if isinstance(step, Send):
                return self._transport.attempt(call, step.timeout)
            time.sleep(step.seconds)
            return None

        return read(call, drive(exchange(call, retries, time.monotonic, time.time), do))

    def wait(self, id_: str, /, *, timeout: float = 60.0) -> models.Execution:
        """Return an execution once it has ended; for a job's id its newest one.

        Raises WaitTimeoutError after `timeout` seconds: the execution goes on.
        """

        def do(step: Call | Pause) -> Any:
            if isinstance(step, Call):
                # One that cannot be held is not tried again: who waits looks instead.
                retries = replace(self._retries, most_tries=1) if step.held_seconds else self._retries
                return self._send(step, retries)
            time.sleep(step.seconds)
            return None

        return drive(until_ended(id_, timeout), do)

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

    def register(self, *, dry_run: bool = False) -> list[Change]:
        """Make the service have the declared endpoints and their payload specs, and return what was to change.

        What is as declared stays; what differs becomes a new version. A dry run reads only. Raises
        RegistrationConflictError, after which register again: what was done is done.
        """
        return drive(self._declared.register(dry_run=dry_run), self.send)
