"""Django project of the test of the plugin, set up as pytest-django would: its view sends a mail.

Each process of pytest-xdist notes the stacks of its tests.
"""

import json
import os
import sys
from pathlib import Path

import django
import pytest
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


@pytest.fixture(autouse=True)
def _note_stack(te_stack):
    with Path(f"stacks-{os.environ['PYTEST_XDIST_WORKER']}").open("a") as notes:
        notes.write(f"{te_stack.database_url}\n")
