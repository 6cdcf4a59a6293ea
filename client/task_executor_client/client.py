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
    """Client of one service, safe to share between threads. Use it with `with`, or close it.

    Args:
        base_url: URL of the service.
        api_key: API key.
        retries: Limits of retries; `Retries()` by default.
        connections: Number of connections kept open.

    Raises:
        ValueError: The URL or the key is malformed.

    Example:
        with Client("https://te.example.org", key) as te:
            job = te.jobs.create(endpoint="mail", trigger="IMMEDIATE", input={"to": "a@example.org"})
            print(te.wait(job["job_id"])["status"])
    """

    def __init__(self, base_url: str, api_key: str, *, retries: Retries | None = None, connections: int = 10) -> None:
        self._address = Address.of(base_url, api_key)
        self._retries = retries or Retries()
        self._transport = Transport(self._address, connections)
        self._declared = Declarations()
        super().__init__(self)

    def __repr__(self) -> str:
        """Return the class and the URL, without the key."""
        return f"Client({self._address.base_url!r})"

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Close the connections; later calls raise RuntimeError. Closing twice is allowed."""
        self._transport.close()

    def send(self, call: Call) -> Any:
        """Send a call with retries and return its answer; raises TaskExecutorError."""
        return self._send(call, self._retries)

    def _send(self, call: Call, retries: Retries) -> Any:
        def do(step: Send | Pause) -> Outcome:
            if isinstance(step, Send):
                return self._transport.attempt(call, step.timeout)
            time.sleep(step.seconds)
            return None

        return read(call, drive(exchange(call, retries, time.monotonic, time.time), do))

    def wait(self, id_: str, /, *, timeout: float = 60.0) -> models.Execution:
        """Wait until an execution has ended.

        Args:
            id_: Id of an execution, or of a job for its newest execution.
            timeout: Limit in seconds.

        Returns:
            The ended execution.

        Raises:
            WaitTimeoutError: The execution has not ended within `timeout`; it continues.
            ValueError: The id belongs to neither an execution nor a job.
        """

        def do(step: Call | Pause) -> Any:
            if isinstance(step, Call):
                # A failed long poll is not retried: `until_ended` reads the execution instead.
                retries = replace(self._retries, max_tries=1) if step.held_seconds else self._retries
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
        """Declare an endpoint whose input has the arguments of the decorated function; see `register`.

        Args:
            type: Transport.
            name: Name of the endpoint; by default the function's name with hyphens.
            fields: Further fields of `endpoints.create`, such as `spec`.

        Returns:
            A decorator; the decorated function is still callable and has `input(...)` for the input of a job.

        Raises:
            TypeError: An argument of the function has no type, or a type that JSON does not have.
            ValueError: The name is declared already.

        Example:
            @te.endpoint(spec={"url": "https://mail.example.org", "body_template": "{{input}}"})
            def send_mail(to: str, subject: str) -> None: ...
        """

        def declare(function: Callable[P, R]) -> Declared[P, R]:
            given = {"name": name or function.__name__.strip("_").replace("_", "-"), "type": type}
            return self._declared.add(function, fields | given)

        return declare

    def register(self, *, dry_run: bool = False) -> list[Change]:
        """Create or update the declared endpoints and their payload specs; unchanged definitions are skipped.

        Args:
            dry_run: Only read, and return the changes that would be made.

        Returns:
            A change for each payload spec and endpoint.

        Raises:
            RegistrationConflictError: The type differs, or another client changed a definition. Earlier changes of the
                call stay; call `register` again.
        """
        return drive(self._declared.register(dry_run=dry_run), self.send)
