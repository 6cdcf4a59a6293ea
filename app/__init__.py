"""Task Executor: `setTimeout` and `setInterval` as a service.

Importing this package imports neither Flask nor Dramatiq: workers and the scheduler import it too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask


def create_app() -> "Flask":
    """Build the web application; `flask --app app` and gunicorn look for this name."""
    from app.web import application  # noqa: PLC0415 - see the module docstring

    return application.create_app()
