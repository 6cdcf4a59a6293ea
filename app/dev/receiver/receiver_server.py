"""Recording receiver: an aiohttp server on its own thread."""

import asyncio
import threading
import time
from collections import defaultdict
from typing import Self

from aiohttp import web

from app.dev.receiver.behaviours import RELEASED, respond
from app.dev.receiver.record import Predicate, Received, Record

_MAX_BODY = 64 * 1024 * 1024
_GRACE_SECONDS = 0.05  # for open connections; 0 would mean no limit
_BACKLOG = 4096  # for tests that open thousands of connections at once


class Receiver:
    """HTTP receiver that records each request and answers with the behaviour of its path; a context manager.

    GET /_requests returns the record as JSON (?path= for a prefix), for a receiver in another process.
    """

    def __init__(self, *, port: int = 0, host: str = "127.0.0.1", record: Record | None = None) -> None:
        self.host = host
        self.port = port
        """Chosen port, or 0 until the start."""
        self.record = record or Record()
        self._released = defaultdict[str, asyncio.Event](asyncio.Event)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def requests(self) -> list[Received]:
        return self.record.matching()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start listening; raises OSError if the port is taken."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Close the port and all connections, including hanging connections."""
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def url(self, path: str) -> str:
        return self.base_url + path

    def release(self, path: str) -> None:
        """Release a path of /held or /broken: waiting and later requests are answered 200."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._open, path)

    def clear(self) -> None:
        """Clear the record, including the counts of flaky paths."""
        self.record.clear()

    def wait_for(self, wanted: int | Predicate, timeout: float = 60.0, *, path: str = "") -> list[Received]:
        """Wait for requests to paths that start with `path`; see Record.wait_for."""
        return self.record.wait_for(wanted, timeout, path=path)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        application = web.Application(client_max_size=_MAX_BODY)
        application[RELEASED] = self._released
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host, self.port, backlog=_BACKLOG)
            await site.start()
            self.port = runner.addresses[0][1]
            self._loop = asyncio.get_running_loop()
            self._started.set()
            await self._stopping.wait()
        finally:
            await runner.cleanup()

    def _open(self, path: str) -> None:
        self._released[path].set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        monotonic, wall = time.monotonic(), time.time()
        if request.path == "/_requests":
            found = self.record.matching(request.query.get("path", ""))
            return web.json_response([received.as_dict() for received in found])
        received = Received(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=request.headers,
            body=await request.read(),
            monotonic=monotonic,
            time=wall,
        )
        times = self.record.add(received)
        try:
            response = await respond(request, received, times)
            received.status = response.status
            return response
        finally:
            self.record.end(received)
