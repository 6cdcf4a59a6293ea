"""Adapter for Flask."""

from collections.abc import Callable
from typing import Any

from flask import Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from task_executor_receiver.receiver import Receiver


def view(receiver: Receiver[Any]) -> Callable[[], Response]:
    """Return a view function that passes requests to a receiver; the handler runs on the thread of the request.

    A body above `receiver.max_body_bytes` is answered 413. Errors of the handler propagate, so that Flask answers 500.

    Args:
        receiver: Receiver of the endpoint's deliveries.

    Returns:
        A view function for POST.

    Example:
        app.add_url_rule("/deliveries", view_func=view(receiver), methods=["POST"])
    """

    def receive_delivery() -> Response:
        request.max_content_length = receiver.max_body_bytes
        try:
            answer = receiver.receive(request.headers.items(), request.get_data())
        except RequestEntityTooLarge:
            answer = receiver.too_long()
        return Response(answer.body, answer.status, answer.all_headers)

    return receive_delivery
