"""REST API: Flask blueprints that parse a request, call the store and format its answer."""

import os
from collections.abc import Callable
from functools import partial
from typing import IO, Any, cast

import click
from flask import Flask
from flask.cli import NoAppException
from flask.json.provider import DefaultJSONProvider

from app.api import (
    audit,
    auth,
    breakers,
    bulk_operations,
    callbacks,
    cron,
    dead_letters,
    events,
    executions,
    health,
    idempotency,
    jobs,
    metrics,
    notifications,
    operations,
    redrives,
)
from app.api.catalog import configs, endpoint_flow, notification_rules, payload_specs, routes, secrets
from app.api.control import processes, queues, schedulers, stats, workers
from app.api.http import body, errors, pagination, parking, request_ids, requests_counted, traces
from app.api.openapi import document, swagger_ui
from app.api.services import EXTENSION, Services, services
from app.config import SettingError, Settings
from app.db import deadline

RESOURCES = [
    payload_specs.resource,
    configs.resource,
    secrets.resource,
    endpoint_flow.resource,
    routes.resource,
    routes.questions,
    notification_rules.resource,
    notification_rules.questions,
    jobs.resource,
    executions.resource,
    dead_letters.resource,
    callbacks.resource,
    notifications.resource,
    redrives.resource,
    redrives.questions,
    bulk_operations.resource,
    bulk_operations.questions,
    breakers.resource,
    queues.resource,
    workers.resource,
    schedulers.resource,
    processes.resource,
    stats.resource,
    audit.resource,
    events.resource,
    cron.resource,
    health.resource,
    operations.resource,
    metrics.resource,
]


class NoApplicationError(NoAppException):
    """No application can be built from the settings: one line, also above the list of commands of `--help`."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message without Flask's words on usage: the command line was right."""
        click.ClickException.show(self, file)


def create_app(settings: Settings | None = None) -> Flask:
    """Build the web application; connects to nothing yet. Reads the environment only when given no settings."""
    app = Flask("task_executor", static_folder=None)
    built = app.extensions[EXTENSION] = _one_line(lambda: Services.connect(settings or Settings.from_env(os.environ)))
    app.config["MAX_CONTENT_LENGTH"] = built.settings.max_body_bytes
    cast("DefaultJSONProvider", app.json).sort_keys = False
    # One path per resource: /jobs/ is not /jobs, and a redirect between them could lose a body.
    app.url_map.merge_slashes = False
    request_ids.register(app)
    requests_counted.register(app)
    traces.register(app, built.exporting)
    # No request waits for the database for ever: after a while it is answered 504.
    begin_deadline = partial(deadline.begin, built.settings.request_timeout_seconds)
    app.before_request(begin_deadline)
    app.teardown_request(lambda _error: deadline.end())
    parking.register(app, begin_deadline, auth.verify_again)
    body.register(app)
    pagination.register(app, lambda: services().cursor_key)
    auth.register(app)
    document.register(app, RESOURCES)
    idempotency.register(app)
    swagger_ui.register(app)
    errors.register(app)
    return app


def _one_line(build: Callable[[], Services]) -> Services:
    """Under `flask ...`, turn a wrong setting into one line and a non-zero exit status."""
    try:
        return build()
    except SettingError as error:
        if click.get_current_context(silent=True) is None:
            raise
        raise NoApplicationError(str(error)) from None
