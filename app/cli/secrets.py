"""`flask secrets`: the keys that secrets are encrypted with, and their rotation."""

import click
from flask.cli import with_appcontext

from app.api.services import secret_box, services
from app.catalog import crypto, rotation
from app.catalog.crypto import VARIABLE, SecretBox
from app.catalog.rotation import KeyUse
from app.cli.console import json_option, print_json
from app.cli.errors import one_line
from app.db import ready


@click.group("secrets")
def group() -> None:
    """The encryption of secrets."""


@group.command("generate-key")
def generate_key() -> None:
    """Print a new value for TE_SECRET_ENCRYPTION_KEY; needs neither settings nor a database."""
    click.echo(crypto.generate_key())


@group.command("status")
@json_option
@with_appcontext
def status(as_json: bool) -> None:
    """Count the secrets under each key of TE_SECRET_ENCRYPTION_KEY; exits with 1 when none of them decrypts some."""
    database = services().database
    with one_line():
        box = secret_box()
        ready.check_ready(database)
        use = rotation.key_use(database, box)
    if as_json:
        print_json({"keys": {key: use.counts[key] for key in box.key_ids}, "unreadable": use.unreadable})
    else:
        _show(box, use)
    _refuse_unreadable(use)


@group.command("rotate")
@with_appcontext
def rotate() -> None:
    """Encrypt all secrets with the first key of TE_SECRET_ENCRYPTION_KEY, while everything runs.

    Exits with 0 once all secrets are under that key, so that the others may be removed from the setting; may be
    interrupted and repeated.
    """
    database = services().database
    with one_line():
        box = secret_box()
        ready.check_ready(database)
        _show(box, rotation.key_use(database, box))
        changed = rotation.rotate(database, box)
        use = rotation.key_use(database, box)
    click.echo(f"{changed} encrypted anew")
    _show(box, use)
    _refuse_unreadable(use)
    if any(use.counts[key] for key in box.key_ids[1:]):
        raise click.ClickException(
            "some secrets were written with another key meanwhile; put the same key first for all web processes, "
            "restart them, and run this again"
        )


def _show(box: SecretBox, use: KeyUse) -> None:
    for number, key in enumerate(box.key_ids):
        click.echo(f"key {key}: {use.counts[key]} secrets{' (encrypts)' if number == 0 else ''}")
    if use.unreadable:
        click.echo(f"none of these keys: {len(use.unreadable)} secrets ({rotation.named(use.unreadable)})")


def _refuse_unreadable(use: KeyUse) -> None:
    if use.unreadable:
        raise click.ClickException(
            f"{len(use.unreadable)} secrets cannot be decrypted; add their key to {VARIABLE}, or store them anew"
        )
