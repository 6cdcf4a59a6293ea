"""AsyncClient: the operations of the service, with retries, over aiohttp (extra `async`)."""

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
    """Asynchronous client of one service, for one event loop. Use it with `async with`, or close it.

    Needs the extra `async`. Tasks of the loop may share a client; other threads may not use it. Proxies of the
    environment are not used.

    Args:
        base_url: URL of the service, such as `https://te.example.org`; a path is kept as prefix.
        api_key: API key; `repr`, log lines and error messages do not contain it.
        retries: Limits of retries; None for `Retries()`.
        connections: Largest number of open connections, for which further calls wait within their time limit. Long
            polls of `wait` use at most half of them.

    Raises:
        ValueError: The URL or the key is malformed.

    Example:
        from task_executor_client import AsyncClient

        async with AsyncClient("https://te.example.org", key) as te:
            job = await te.jobs.create(endpoint="mail", trigger="IMMEDIATE", input={"to": "a@example.org"})
    """

    def __init__(self, base_url: str, api_key: str, *, retries: Retries | None = None, connections: int = 100) -> None:
        self._address = Address.of(base_url, api_key)
        self._retries = retries or Retries()
        self._transport = AsyncTransport(self._address, connections)
        self._declared = Declarations()
        # Half of the connections stay free, so that long polls do not delay other calls.
        self._max_held = connections // 2
        self._held = 0
        super().__init__(self)

    def __repr__(self) -> str:
        """Return the class and the URL, without the key."""
        return f"AsyncClient({self._address.base_url!r})"

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; later calls raise RuntimeError. Closing twice is allowed."""
        await self._transport.close()

    async def request(self, call: Call) -> Any:
        """Send a call with retries. The generated operations use it; an operation without a method can be sent too.

        Args:
            call: Request; see `Call.of`.

        Returns:
            An `Answer` for a JSON object, another JSON value, text for `is_text`, or None without a body.

        Raises:
            TaskExecutorError: Errors of each operation; see `async_operations.AsyncService`.
            RuntimeError: The client is closed.

        Example:
            job = await te.request(Call.of("jobs.get", "GET", "/jobs/{job_id}", path={"job_id": "job_8f3a6c1d2e4b"}))
        """
        return await self._send(call, self._retries)

    async def _send(self, call: Call, retries: Retries) -> Any:
        async def do(step: Send | Pause) -> Outcome:
            if isinstance(step, Send):
                return await self._transport.attempt(call, step.timeout)
            await asyncio.sleep(step.seconds)
            return None

        return read(call, await drive_async(exchange(call, retries, time.monotonic, time.time), do))

    async def send(
        self, url: str, body: Any = None, *, timeout: float | None = None, **fields: Any
    ) -> models.CreatedJob:
        """Create a job that sends a JSON body to a URL, without an endpoint; needs the scope `jobs:send`.

        Args:
            url: HTTP or HTTPS URL, without templates and secrets.
            body: JSON value to send; None for no body.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Further fields of `models.NewJob`, such as `delay`, `cron`, `method`, `headers`, `retry_policy` or
                `idempotency_key`.

        Returns:
            The job; `replayed(answer)` is True if an earlier request with the same key created it.

        Raises:
            errors.ConflictError: The service has as many endpoints of URLs as it may have.
            TaskExecutorError: Other errors of each operation; see `async_operations.AsyncService`.

        Example:
            await te.send("https://shop.example/reminders", {"user": "u_1"}, delay="10m")
        """
        return await self.jobs.create(timeout=timeout, **{"url": url, "body": body, **fields})

    async def wait(self, id_: str, /, *, timeout: float = 60.0) -> models.Execution:
        """Wait until an execution has ended. Only the calling task waits.

        The wait is a long poll; if the service is too busy for long polls, the client polls at most every 2 s.

        Args:
            id_: Id of an execution, or of a job for its newest execution. A job without an execution is polled until
                it has an execution.
            timeout: Limit in seconds, above 0.

        Returns:
            The execution in the state SUCCESS, FAILED or CANCELLED.

        Raises:
            WaitTimeoutError: The execution has not ended within `timeout`; it continues.
            ValueError: The id begins with neither `exec_` nor `job_`.
            errors.ExecutionNotFoundError: No execution has that id.
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `async_operations.AsyncService`.

        Example:
            execution = await te.wait(job["job_id"], timeout=300)
            if execution["status"] == "FAILED":
                print(execution["last_error"])
        """

        async def do(step: Call | Pause) -> Any:
            if isinstance(step, Call):
                return await (self._hold(step) if step.held_seconds else self.request(step))
            await asyncio.sleep(step.seconds)
            return None

        return await drive_async(until_ended(id_, timeout), do)

    async def _hold(self, call: Call) -> Any:
        """Send a long poll without retries; return None if half of the connections are polling already."""
        if self._held >= self._max_held:
            return None
        self._held += 1
        try:
            return await self._send(call, replace(self._retries, max_tries=1))
        finally:
            self._held -= 1

    def endpoint(
        self,
        *,
        type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"] = "HTTP",  # noqa: A002 - as it is called
        name: str | None = None,
        **fields: Any,
    ) -> Callable[[Callable[P, R]], Declared[P, R]]:
        """Declare an endpoint whose input has the arguments of the decorated function; nothing is sent.

        `register` creates or updates the declared endpoints. Declare on one thread, before `register`.

        Args:
            type: Transport.
            name: Name of the endpoint; None for the function's name with hyphens.
            **fields: Further fields of `endpoints.create`, such as `spec` or `retry_policy`. `register` resets omitted
                `spec`, `config`, `retry_policy`, `keep_response` and `callbacks` to their defaults, and leaves omitted
                `queue`, `priority`, `limits`, `breaker` and `result_retention` unchanged.

        Returns:
            A decorator that returns a `Declared`: still callable, with `name`, and `input(...)` for the input of a job.

        Raises:
            TypeError: An argument of the function has no type, or a type that JSON does not have. Raised by the
                decorator.
            ValueError: The name is declared already. Raised by the decorator.

        Example:
            @te.endpoint(spec={"url": "https://mail.example.org", "body_template": "{{input}}"})
            def send_mail(to: str, subject: str) -> None: ...


            await te.register()
        """

        def declare(function: Callable[P, R]) -> Declared[P, R]:
            given = {"name": name or function.__name__.strip("_").replace("_", "-"), "type": type}
            return self._declared.add(function, fields | given)

        return declare

    async def register(self, *, dry_run: bool = False) -> list[Change]:
        """Create or update the declared endpoints and their payload specs; unchanged definitions are skipped.

        Several processes may register the same declarations at the same time.

        Args:
            dry_run: Only read, and return the changes that would be made.

        Returns:
            A change for each payload spec and each endpoint, in the order of the declarations.

        Raises:
            RegistrationConflictError: The type differs, or another client changed a definition. Earlier changes of the
                call stay; call `register` again.
            TaskExecutorError: The service refused a definition; see `endpoints.create` and `payload_specs.create`.
                Other errors of each operation: see `async_operations.AsyncService`.

        Example:
            for change in await te.register(dry_run=True):
                print(change.kind, change.name, change.action, change.fields)
        """
        return await drive_async(self._declared.register(dry_run=dry_run), self.request)
