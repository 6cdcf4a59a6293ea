"""Adapter for FastAPI; the handler runs in a thread and may block."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from task_executor_receiver.receiver import Receiver


def route(receiver: Receiver[Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return a path operation that passes requests to a receiver; the handler runs in a thread and may block.

    A body above `receiver.max_body_bytes` is answered 413. Errors of the handler propagate, so that FastAPI answers
    500.

    Args:
        receiver: Receiver of the endpoint's deliveries.

    Returns:
        A path operation for POST.

    Example:
        app.post("/deliveries")(route(receiver))
    """

    async def receive_delivery(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > receiver.max_body_bytes:
                break
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        answer = await run_in_threadpool(receiver.receive, headers, bytes(body))
        return Response(answer.body, answer.status, answer.all_headers)

    return receive_delivery
