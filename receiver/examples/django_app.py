"""Example: a complete receiver with Django in a single file (`pip install './receiver[django]'`):

    TE_WEBHOOK_SECRET=whsec_… python receiver/examples/django_app.py

POST /deliveries receives deliveries, GET /shipments lists their effects. Environment: DATABASE (a file), PORT.
"""

import os
import sys

import django
from django.conf import settings
from django.core.management import call_command, execute_from_command_line

settings.configure(
    SECRET_KEY="of this example",  # noqa: S106
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["task_executor_receiver.django"],
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("DATABASE", "shipments.sqlite3"),
            "ATOMIC_REQUESTS": True,  # the adapter's view is exempt: the inbox opens its own transaction
        }
    },
)
django.setup()

from django.db import connection, models  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from task_executor_receiver import Delivery, Receiver, Refused, Verifier  # noqa: E402
from task_executor_receiver.django.inbox import DjangoInbox  # noqa: E402
from task_executor_receiver.django.views import view  # noqa: E402


class Shipment(models.Model):  # type: ignore[misc, unused-ignore]
    """Shipped order; at most one row per execution."""

    order_id = models.CharField(max_length=64)

    class Meta:
        """Explicit label, because a single file belongs to no Django application."""

        app_label = "shop"


def ship(delivery: Delivery, using: str) -> dict[str, str]:
    """Ship an order in the transaction that marks the execution as done."""
    order = delivery.json()
    if "order_id" not in order:
        raise Refused("the order has no order_id")  # 410: retrying cannot help
    Shipment.objects.using(using).create(order_id=order["order_id"])
    return {"shipped": order["order_id"]}


def shipments(_request: HttpRequest) -> JsonResponse:
    """List the shipped orders."""
    return JsonResponse(list(Shipment.objects.values_list("order_id", flat=True)), safe=False)


# During a rotation the variable holds the new secret, a space and the old secret.
receiver = Receiver(Verifier(os.environ["TE_WEBHOOK_SECRET"].split()), DjangoInbox(), ship)
urlpatterns = [path("deliveries", view(receiver)), path("shipments", shipments)]

if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    if Shipment._meta.db_table not in connection.introspection.table_names():  # noqa: SLF001
        with connection.schema_editor() as editor:
            editor.create_model(Shipment)
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", f"127.0.0.1:{os.environ.get('PORT', '8000')}"])
