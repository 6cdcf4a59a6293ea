"""`flask secrets`: the key that secrets are encrypted with; needs no application."""

import click

from app.catalog import crypto


@click.group("secrets")
def group() -> None:
    """The encryption of secrets."""


@group.command("generate-key")
def generate_key() -> None:
    """Print a new value for TE_SECRET_ENCRYPTION_KEY; to rotate, put it first and keep the old one after a comma."""
    click.echo(crypto.generate_key())
