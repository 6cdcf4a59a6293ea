"""REST API: Flask blueprints that parse a request, call the store and format its answer."""

import os
from collections.abc import Callable
from functools import partial
from typing import IO, Any, cast

import click
from flask import Flask
from flask.cli import NoAppException
from flask.json.provider import DefaultJSONProvider

from app.features.breakers import api as breakers_api
from app.features.bulk_jobs import api as bulk_jobs_api
from app.features.callbacks import api as callbacks_api
from app.features.control import operations, processes_api, schedulers_api, stats_api, workers_api
from app.features.dead_letters import api as dead_letters_api
from app.features.dead_letters import redrives_api
from app.features.events import api as events_api
from app.features.notifications import api as notifications_api
from app.features.notifications import rules_api
from app.features.queues import api as queues_api
from app.features.queues import routes_api
from app.kernel.config import SettingError, Settings
from app.kernel.db import deadline
from app.web import audit_api, cron_api, executions, health_api, jobs, metrics_api
from app.web.catalog import configs_api, endpoint_settings_api, payload_specs_api, secrets_api
from app.web.http import (
    authentication,
    body,
    error_envelope,
    idempotent_requests,
    pagination,
    request_ids,
    request_traces,
    requests_counted,
    suspension,
)
from app.web.openapi import document, swagger_ui
from app.web.services import EXTENSION, Services, services

RESOURCES = [
    payload_specs_api.resource,
    configs_api.resource,
    secrets_api.resource,
    endpoint_settings_api.resource,
    routes_api.resource,
    routes_api.questions,
    rules_api.resource,
    rules_api.questions,
    jobs.resource,
    executions.resource,
    dead_letters_api.resource,
    callbacks_api.resource,
    notifications_api.resource,
    redrives_api.resource,
    redrives_api.questions,
    bulk_jobs_api.resource,
    bulk_jobs_api.questions,
    breakers_api.resource,
    queues_api.resource,
    workers_api.resource,
    schedulers_api.resource,
    processes_api.resource,
    stats_api.resource,
    audit_api.resource,
    events_api.resource,
    cron_api.resource,
    health_api.resource,
    operations.resource,
    metrics_api.resource,
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
    request_traces.register(app, built.exporting)
    # No request waits for the database for ever: after a while it is answered 504.
    begin_deadline = partial(deadline.begin, built.settings.request_timeout_seconds)
    app.before_request(begin_deadline)
    app.teardown_request(lambda _error: deadline.end())
    suspension.register(app, begin_deadline, authentication.verify_again)
    body.register(app)
    pagination.register(app, lambda: services().cursor_key)
    authentication.register(app)
    document.register(app, RESOURCES)
    idempotent_requests.register(app)
    swagger_ui.register(app)
    error_envelope.register(app)
    return app


def _one_line(build: Callable[[], Services]) -> Services:
    """Under `flask ...`, turn a wrong setting into one line and a non-zero exit status."""
    try:
        return build()
    except SettingError as error:
        if click.get_current_context(silent=True) is None:
            raise
        raise NoApplicationError(str(error)) from None
