"""Administration on the command line: `flask --app app ...`."""

from flask import Flask

from app.cli import api_keys, db


def register(app: Flask) -> None:
    """Add the commands to `flask`."""
    app.cli.add_command(db.group)
    app.cli.add_command(api_keys.group)
