"""Flask application of the REST API."""

import os
from functools import cache, partial

import click
from flask import Flask, Request
from flask.cli import FlaskGroup
from flask.sessions import NullSession, SessionInterface
from werkzeug.routing import Rule

from app.features import FEATURES
from app.kernel.config import SettingError, Settings
from app.kernel.function_types import AnyFunction
from app.web.services import EXTENSION, NotConfiguredError, Services


class _NoSessions(SessionInterface):
    """Sessions are never opened: a client is known by its API key."""

    _none = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:  # noqa: ARG002 - Flask's interface
        return self._none


class _Route(Rule):
    """Rule that compiles what builds its addresses at the first use, because few of all rules ever build one."""

    def _compile_builder(self, append_unknown: bool = True) -> AnyFunction:
        compiled = cache(partial(super()._compile_builder, append_unknown))
        return lambda rule, /, **values: compiled()(rule, **values)


class _Application(Flask):
    """Flask application whose views and hooks are all synchronous; Flask would inspect each for each request."""

    session_interface = _NoSessions()
    url_rule_class = _Route

    def ensure_sync(self, func: AnyFunction) -> AnyFunction:
        """Return a view or hook as it is."""
        return func


def create_app(settings: Settings | None = None) -> Flask:
    """Build the web application without connecting; reads the environment if no settings are given.

    For a command of `flask` the application has the commands and serves nothing; for `flask run`, `flask routes` and
    the like it has both. With an invalid setting, `--help` works, and a command that needs the service fails with one
    line.
    """
    app = _Application("task_executor", static_folder=None)
    context = click.get_current_context(silent=True)
    is_command = context is not None and isinstance(context.command, FlaskGroup)
    if context is not None:
        _add_commands(app)
    try:
        built = Services(settings or Settings.from_env(os.environ), FEATURES)
    except SettingError as error:
        if context is None:
            raise
        if not is_command:
            raise NotConfiguredError(str(error)) from None
        app.extensions[EXTENSION] = error
        return app
    app.extensions[EXTENSION] = built
    if not is_command:
        _register(app, built.settings)
        built.prepare_limits()
    return app


def _add_commands(app: Flask) -> None:
    from app.cli.application_group import ApplicationGroup  # noqa: PLC0415 - a web process needs none

    app.cli = ApplicationGroup(FEATURES)


def _register(app: Flask, settings: Settings) -> None:
    from app.web import registration  # noqa: PLC0415 - a command serves nothing

    registration.register(app, settings)
