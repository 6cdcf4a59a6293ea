"""Behaviours of the receiver, selected by the first segments of the path; further segments are free.

/ok                  200                                /echo           200 with the request as JSON
/status/<n>          status n                           /slow/<ms>      200 after ms milliseconds
/flaky/<n>           503 to the first n requests of each path and Idempotency-Key, then 200
/lost/<n>            closes the connection of the first n requests without an answer, then 200
/retry-after/<s>     503 with Retry-After to the first request, then 200 (?status=429, ?date=1)
/one-in/<n>          503 to a random fraction 1/n of the requests, otherwise 200
/redirect            302 to /ok/redirected              /big            200 with 10 MB
/held                200 after Receiver.release
/broken              503 until Receiver.release, then 200
/hang                never answers                      /drip           a byte each 100 ms, without end
/close               closes in the middle of the body   /garbage        bytes that are not HTTP
/mirror              200 with the body of the request
"""

import asyncio
import random
import time
from collections import defaultdict
from email.utils import formatdate
from typing import NamedTuple

from aiohttp import web

from app.dev.receiver.record import Received

_BIG_BYTES = 10 * 1024 * 1024
_CHUNK = b"x" * 65_536
_DRIP_SECONDS = 0.1

RELEASED = web.AppKey("released", defaultdict[str, asyncio.Event])
"""Events set by Receiver.release, by path."""


class _Exchange(NamedTuple):
    """A request, the second segment of its path, and its number among equal requests."""

    request: web.Request
    received: Received
    argument: str
    times: int

    def failure(self) -> web.Response:
        return web.json_response({"failure": self.times}, status=503)

    def hang_up(self, response: web.StreamResponse) -> web.StreamResponse:
        if self.request.transport is not None:
            self.request.transport.close()
        return response


async def respond(request: web.Request, received: Received, times: int) -> web.StreamResponse:
    """Answer with the behaviour of the path, or 200 if that returns no response."""
    name, argument, *_ = [*request.path.strip("/").split("/"), "", ""]
    behaviour = _BEHAVIOURS.get(name)
    if behaviour is None:
        return web.Response(status=404, text=f"no behaviour {name!r}\n{__doc__}")
    try:
        response = await behaviour(_Exchange(request, received, argument, times))
    except ValueError as error:
        return web.Response(status=404, text=str(error))
    return web.json_response({"ok": True}) if response is None else response


async def _ok(_call: _Exchange) -> None:
    pass


async def _status(call: _Exchange) -> web.Response:
    return web.json_response({"status": int(call.argument)}, status=int(call.argument))


async def _slow(call: _Exchange) -> None:
    await asyncio.sleep(int(call.argument) / 1000)


async def _echo(call: _Exchange) -> web.Response:
    return web.json_response(call.received.as_dict())


async def _mirror(call: _Exchange) -> web.Response:
    return web.Response(body=call.received.body, content_type="application/json")


async def _flaky(call: _Exchange) -> web.Response | None:
    return call.failure() if call.times <= int(call.argument) else None


async def _one_in(call: _Exchange) -> web.Response | None:
    return call.failure() if random.randrange(int(call.argument)) == 0 else None


async def _lost(call: _Exchange) -> web.StreamResponse | None:
    return call.hang_up(web.Response()) if call.times <= int(call.argument) else None


async def _retry_after(call: _Exchange) -> web.Response | None:
    if call.times > 1:
        return None
    query, argument = call.request.query, call.argument
    when = formatdate(time.time() + int(argument), usegmt=True) if "date" in query else argument
    return web.Response(status=int(query.get("status", "503")), headers={"Retry-After": when})


async def _redirect(_call: _Exchange) -> web.Response:
    return web.Response(status=302, headers={"Location": "/ok/redirected"})


async def _held(call: _Exchange) -> None:
    await call.request.app[RELEASED][call.received.path].wait()


async def _broken(call: _Exchange) -> web.Response | None:
    return None if call.request.app[RELEASED][call.received.path].is_set() else call.failure()


async def _hang(_call: _Exchange) -> None:
    await asyncio.Event().wait()  # ends when the client leaves or the receiver stops


async def _drip(call: _Exchange) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(call.request)
    while True:
        await response.write(b".")
        await asyncio.sleep(_DRIP_SECONDS)


async def _big(call: _Exchange) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(_BIG_BYTES)})
    await response.prepare(call.request)
    for _ in range(_BIG_BYTES // len(_CHUNK)):
        await response.write(_CHUNK)
    await response.write_eof()
    return response


async def _close(call: _Exchange) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(call.request)
    await response.write(b"x" * 10)
    return call.hang_up(response)


async def _garbage(call: _Exchange) -> web.StreamResponse:
    if call.request.transport is not None:
        call.request.transport.write(b"SSH-2.0-not-http\r\n\r\n")
    return call.hang_up(web.Response())


_BEHAVIOURS = {
    behaviour.__name__.removeprefix("_").replace("_", "-"): behaviour
    for behaviour in (
        *(_ok, _status, _slow, _echo, _mirror, _flaky, _one_in, _lost, _retry_after, _redirect),
        *(_held, _broken, _hang, _drip, _big, _close, _garbage),
    )
}
