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
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from email.utils import formatdate

from aiohttp import web

from app.dev.receiver.record import Received

_BIG_BYTES = 10 * 1024 * 1024
_CHUNK = b"x" * 65_536
_DRIP_SECONDS = 0.1

RELEASED = web.AppKey("released", defaultdict[str, asyncio.Event])
"""Events set by Receiver.release, by path."""

Behaviour = Callable[[web.Request, Received, str, int], Awaitable[web.StreamResponse]]
"""Takes the request, its record, the second segment of its path and its number among equal requests."""


async def respond(request: web.Request, received: Received, times: int) -> web.StreamResponse:
    """Answer with the behaviour of the path."""
    words = [*request.path.strip("/").split("/"), "", ""]
    behaviour = _BEHAVIOURS.get(words[0])
    if behaviour is None:
        return web.Response(status=404, text=f"no behaviour {words[0]!r}\n{__doc__}")
    try:
        return await behaviour(request, received, words[1], times)
    except ValueError as error:
        return web.Response(status=404, text=str(error))


async def _ok(_request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    return web.json_response({"ok": True})


async def _status(_request: web.Request, _received: Received, argument: str, _times: int) -> web.StreamResponse:
    return web.json_response({"status": int(argument)}, status=int(argument))


async def _slow(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    await asyncio.sleep(int(argument) / 1000)
    return await _ok(request, received, argument, times)


async def _echo(_request: web.Request, received: Received, _argument: str, _times: int) -> web.StreamResponse:
    return web.json_response(received.as_dict())


async def _flaky(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    if times <= int(argument):
        return web.json_response({"failure": times}, status=503)
    return await _ok(request, received, argument, times)


async def _one_in(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    if random.randrange(int(argument)) == 0:
        return web.json_response({"failure": times}, status=503)
    return await _ok(request, received, argument, times)


async def _lost(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    if times <= int(argument):
        return _hang_up(request, web.Response())
    return await _ok(request, received, argument, times)


async def _retry_after(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    if times > 1:
        return await _ok(request, received, argument, times)
    when = formatdate(time.time() + int(argument), usegmt=True) if "date" in request.query else argument
    return web.Response(status=int(request.query.get("status", "503")), headers={"Retry-After": when})


async def _redirect(_request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/ok/redirected"})


async def _hang(_request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    await asyncio.Event().wait()  # ends when the client leaves or the receiver stops
    raise AssertionError("unreachable")


async def _held(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    await request.app[RELEASED][received.path].wait()
    return await _ok(request, received, argument, times)


async def _broken(request: web.Request, received: Received, argument: str, times: int) -> web.StreamResponse:
    if not request.app[RELEASED][received.path].is_set():
        return web.json_response({"failure": times}, status=503)
    return await _ok(request, received, argument, times)


async def _drip(request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b".")
        await asyncio.sleep(_DRIP_SECONDS)


async def _big(request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(_BIG_BYTES)})
    await response.prepare(request)
    for _ in range(_BIG_BYTES // len(_CHUNK)):
        await response.write(_CHUNK)
    await response.write_eof()
    return response


async def _close(request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"x" * 10)
    return _hang_up(request, response)


async def _garbage(request: web.Request, _received: Received, _argument: str, _times: int) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.write(b"SSH-2.0-not-http\r\n\r\n")
    return _hang_up(request, web.Response())


def _hang_up(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return response


_BEHAVIOURS: dict[str, Behaviour] = {
    "ok": _ok,
    "status": _status,
    "slow": _slow,
    "echo": _echo,
    "flaky": _flaky,
    "one-in": _one_in,
    "lost": _lost,
    "retry-after": _retry_after,
    "redirect": _redirect,
    "held": _held,
    "broken": _broken,
    "hang": _hang,
    "drip": _drip,
    "big": _big,
    "close": _close,
    "garbage": _garbage,
}
