"""Adapter for Django."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from task_executor_receiver.receiver import Receiver

View = Callable[[HttpRequest], HttpResponse]


def view(receiver: Receiver[Any], using: str = "default") -> View:
    """Make a view: `path("deliveries", view(receiver))`.

    It needs no CSRF token, because requests are signed, and runs outside of the transaction that ATOMIC_REQUESTS would
    begin on the database `using`: the inbox has its own. Django's DATA_UPLOAD_MAX_MEMORY_SIZE bounds the body too.
    """

    def receive_delivery(request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            answer = receiver.receive(request.headers.items(), request.body)
        except RequestDataTooBig:
            answer = receiver.too_long(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return HttpResponse(answer.body, status=answer.status, headers=answer.all_headers)

    unguarded: View = csrf_exempt(transaction.non_atomic_requests(using)(receive_delivery))
    return unguarded
