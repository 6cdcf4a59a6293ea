"""REST API: Flask blueprints that parse a request, call the store and format its answer."""

import os
from functools import partial
from typing import cast

import click
from flask import Flask
from flask.cli import FlaskGroup
from flask.json.provider import DefaultJSONProvider

from app.features import FEATURES
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
from app.web.openapi.resource import Resource
from app.web.services import EXTENSION, NotConfiguredError, Services, services


def resources() -> list[Resource]:
    """Return all resources of the API, in the order of the OpenAPI document."""
    catalog = [payload_specs_api, configs_api, secrets_api, endpoint_settings_api]
    service = [audit_api, cron_api, health_api, metrics_api]
    kernel = [each.resource for each in (*catalog, jobs, executions, *service)]
    return [*kernel, *(resource for feature in FEATURES for resource in feature.resources())]


def create_app(settings: Settings | None = None) -> Flask:
    """Build the web application; connects to nothing yet. Reads the environment only when given no settings.

    Under `flask ...` it also has the commands. With a wrong setting it has nothing else: `--help` lists them, and each
    that needs the service fails with one line.
    """
    app = Flask("task_executor", static_folder=None)
    context = click.get_current_context(silent=True)
    if context is not None:
        _add_commands(app)
    try:
        built = Services.connect(settings or Settings.from_env(os.environ))
    except SettingError as error:
        if context is None:
            raise
        if not isinstance(context.command, FlaskGroup):  # `flask run` and the like
            raise NotConfiguredError(str(error)) from None
        app.extensions[EXTENSION] = error
        return app
    app.extensions[EXTENSION] = built
    _register(app, built)
    return app


def _add_commands(app: Flask) -> None:
    from app.cli.kernel_commands import COMMANDS  # noqa: PLC0415 - a web process needs none

    for command in (*COMMANDS, *(command for feature in FEATURES for command in feature.commands())):
        app.cli.add_command(command)


def _register(app: Flask, built: Services) -> None:
    """Add the resources, and the conventions that all operations share."""
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
    document.register(app, resources())
    idempotent_requests.register(app)
    swagger_ui.register(app)
    error_envelope.register(app)
