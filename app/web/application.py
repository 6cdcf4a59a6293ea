"""Flask application of the REST API."""

import os
from typing import cast

import click
from flask import Flask, Request
from flask.cli import FlaskGroup
from flask.json.provider import DefaultJSONProvider
from flask.sessions import NullSession, SessionInterface

from app import console
from app.features import FEATURES
from app.kernel.config import SettingError, Settings
from app.kernel.function_types import AnyFunction
from app.web import api_keys_api, audit_api, cron_api, health_api, metrics_api
from app.web.catalog import (
    endpoint_versions_api,
    endpoints_api,
    named_api,
    payload_spec_check_api,
    similar_endpoints,
    uses_api,
)
from app.web.executions import attempts_api, executions_api, explain_api
from app.web.http import authentication, body, error_envelope, request_log
from app.web.jobs import batch_api, changes_api
from app.web.openapi import document, swagger_ui
from app.web.openapi.resource import Resource
from app.web.services import EXTENSION, NotConfiguredError, Services


class _NoSessions(SessionInterface):
    """Sessions are never opened: a client is known by its API key."""

    _none = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:  # noqa: ARG002 - Flask's interface
        return self._none


class _Application(Flask):
    """Flask application whose views and hooks are all synchronous; Flask would inspect each for each request."""

    session_interface = _NoSessions()

    def ensure_sync(self, func: AnyFunction) -> AnyFunction:
        """Return a view or hook as it is."""
        return func


def resources() -> list[Resource]:
    """Return all resources of the API, in the order of the OpenAPI document.

    A feature may also add operations to a resource of the kernel, which is listed once.
    """
    named = [named_api.payload_specs, named_api.configs, named_api.secrets]
    catalog = [payload_spec_check_api, endpoints_api, endpoint_versions_api, uses_api]
    executions = [executions_api, attempts_api, explain_api]
    modules = [*catalog, batch_api, changes_api, *executions, audit_api, api_keys_api, cron_api]
    kernel = [*named, *(each.resource for each in (*modules, health_api, metrics_api))]
    added = [resource for feature in FEATURES for resource in feature.resources()]
    return [*dict.fromkeys([*kernel, *added])]


def create_app(settings: Settings | None = None) -> Flask:
    """Build the web application without connecting; reads the environment if no settings are given.

    Under `flask ...` the application also has the commands. With an invalid setting it has only the commands: `--help`
    works, and a command that needs the service fails with one line.
    """
    app = _Application("task_executor", static_folder=None)
    context = click.get_current_context(silent=True)
    if context is not None:
        _add_commands(app)
    try:
        built = Services(settings or Settings.from_env(os.environ), FEATURES)
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
    from app.cli.kernel_commands import group_with  # noqa: PLC0415 - a web process needs none

    app.cli = group_with(command for feature in FEATURES for command in feature.commands())


def _register(app: Flask, built: Services) -> None:
    """Add the resources and the conventions of all operations."""
    app.config["MAX_CONTENT_LENGTH"] = built.settings.max_body_bytes
    cast("DefaultJSONProvider", app.json).sort_keys = False
    # One path per resource: a redirect from // to / could lose a body.
    app.url_map.merge_slashes = False
    request_log.register(app)
    body.register(app, repeating=[console.NAME])
    registered = resources()
    authentication.register(app, registered, own_access=[console.NAME])
    document.register(app, registered)
    swagger_ui.register(app)
    error_envelope.register(app)
    similar_endpoints.register(app)
    if built.settings.console == "on":
        console.register(app, registered)
