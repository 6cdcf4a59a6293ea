"""`flask openapi`: the commands of flask-smorest, which read the document of an application with all operations."""

from typing import Any

import click
from flask import current_app
from flask.cli import AppGroup

from app.web.services import services


class _DocumentGroup(AppGroup):
    """Group that adds the operations to the application: other commands do without them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of flask-smorest."""
        from app.web import registration  # noqa: PLC0415 - no other command needs the operations
        from app.web.openapi.document import EXTENSION  # noqa: PLC0415

        application: Any = current_app
        registration.register(application._get_current_object(), services().settings)  # noqa: SLF001 - of werkzeug
        application.extensions[EXTENSION].build()
        return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of flask-smorest."""
        return _commands().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands of flask-smorest."""
        return _commands().list_commands(ctx)


def _commands() -> click.Group:
    from flask_smorest.spec import openapi_cli  # noqa: PLC0415 - no other command needs flask-smorest

    commands: click.Group = openapi_cli
    return commands


group = _DocumentGroup("openapi", help="OpenAPI commands.")
