"""common.py of Dramatiq's tests, without RabbitMQ."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dramatiq import Worker
from dramatiq.threading import is_gevent_active

RABBITMQ_USERNAME = RABBITMQ_PASSWORD = "guest"
RABBITMQ_CREDENTIALS = None
skip_in_ci = pytest.mark.skipif(False, reason="not skipped")
skip_on_windows = pytest.mark.skipif(platform.system() == "Windows", reason="test skipped on Windows")
skip_on_pypy = pytest.mark.skipif(platform.python_implementation() == "PyPy", reason="no time limits under PyPy")
skip_with_gevent = pytest.mark.skipif(is_gevent_active(), reason="differs with gevent")
skip_without_gevent = pytest.mark.skipif(not is_gevent_active(), reason="differs without gevent")
skip_unless_rabbit_mq = pytest.mark.skip(reason="there is no RabbitMQ")


def rabbit_mq_is_unreachable() -> bool:
    return True


@contextmanager
def worker(*args: Any, **kwargs: Any) -> Iterator[Worker]:
    started = Worker(*args, **kwargs)
    started.start()
    try:
        yield started
    finally:
        started.stop()
