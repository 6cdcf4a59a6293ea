"""`flask secrets`: the key that secrets are encrypted with."""

import click
from cryptography.fernet import Fernet
from flask.cli import AppGroup

group = AppGroup("secrets", help="The encryption of secrets.")


@group.command("generate-key")
def generate_key() -> None:
    """Print a new value for TE_SECRET_ENCRYPTION_KEY; to rotate, put it first and keep the old one after a comma."""
    click.echo(Fernet.generate_key().decode())
