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
    """Return a view that passes requests to a receiver.

    The view is exempt from CSRF, because requests are signed. Django's DATA_UPLOAD_MAX_MEMORY_SIZE bounds the body too.

    Args:
        receiver: Receiver with a DjangoInbox.
        using: Alias of the inbox's database, which the view excludes from ATOMIC_REQUESTS.

    Returns:
        A view for POST; other methods are answered 405. The handler runs on the thread of the request, and its errors
        propagate, so that Django answers 500.

    Example:
        urlpatterns = [path("deliveries", view(receiver))]
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
