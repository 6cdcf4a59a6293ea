"""Django set up once in the test process, with one database per requested alias."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit


@contextmanager
def connected(alias: str, url: str) -> Iterator[Any]:
    """Point Django's connection of this alias at the PostgreSQL database at a URL."""
    connections = _connections()
    parts = urlsplit(url)
    found = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username}
    found |= {"PASSWORD": parts.password or "", "HOST": parts.hostname, "PORT": parts.port}
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: found})[alias]
    try:
        yield connections[alias]
    finally:
        connections.close_all()
        del connections[alias], connections.settings[alias]


def _connections() -> Any:
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(INSTALLED_APPS=["task_executor_receiver.django"], DATABASES={}, USE_TZ=True)
        django.setup()
    return connections
