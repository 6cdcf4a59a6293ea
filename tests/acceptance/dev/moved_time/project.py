"""Django project of the test of the plugin, set up as pytest-django would: its view sends a mail."""

import json
import sys

import django
from django.conf import settings
from django.core.mail import send_mail
from django.http import HttpResponse
from django.test.utils import setup_test_environment
from django.urls import path


def remind(request):
    user = json.loads(request.body)["user"]
    send_mail("Your basket", f"{user}, it waits for you.", "shop@example.org", [f"{user}@example.org"])
    return HttpResponse()


urlpatterns = [path("remind", remind)]
settings.configure(ROOT_URLCONF=sys.modules[__name__])
django.setup()
setup_test_environment()
