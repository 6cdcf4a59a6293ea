"""Task Executor: `setTimeout` and `setInterval` as a service.

Importing this package imports neither Flask nor Dramatiq: workers and the scheduler import it too.
"""

import atexit
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

# The imports of a process create no garbage, and searching for it would take a sixth of the start. Long-lived processes
# set lower thresholds once they are up (app/kernel/collector.py).
gc.set_threshold(300_000)
# An end needs no search for garbage either, which takes a third of the CPU time of a command: the system frees all.
atexit.register(gc.freeze)


def create_app() -> "Flask":
    """Build the web application; `flask --app app` and gunicorn look for this name."""
    from app.web import application  # noqa: PLC0415 - see the module docstring

    return application.create_app()
