"""`flask secrets`: encryption keys of secrets and their rotation."""

from typing import Any

import click

from app.catalog import crypto, rotation
from app.catalog.crypto import VARIABLE, SecretBox
from app.catalog.rotation import KeyUse
from app.cli.commands import CommandError, ServiceGroup, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, progress
from app.kernel.formats import numbered
from app.web.services import secret_box

group = ServiceGroup("secrets", help="Encryption keys of secrets.")


@group.command("generate-key", with_appcontext=False)
@json_option
def generate_key(as_json: bool) -> None:
    """Print a new value for TE_SECRET_ENCRYPTION_KEY. Needs neither settings nor a database."""
    key = crypto.generate_key()
    print_result({"key": key}, key, as_json=as_json)


@group.command("status")
@json_option
def status(as_json: bool) -> None:
    """Count the secrets under each key of TE_SECRET_ENCRYPTION_KEY. Exits with 1 if a secret matches no key."""
    box = secret_box()
    with ready_database() as database:
        use = rotation.key_use(database, box)
    if as_json:
        print_json(_shape(box, use))
    else:
        _show(box, use)
    _refuse_unreadable(use)


@group.command("rotate")
@yes_option
@json_option
def rotate(yes: bool, as_json: bool) -> None:
    """Re-encrypt all secrets with the first key of TE_SECRET_ENCRYPTION_KEY, while the service runs.

    Exits with 0 when all secrets use that key; then the other keys may be removed from the setting. May be interrupted
    and repeated.
    """
    box = secret_box()
    with ready_database() as database:
        use = rotation.key_use(database, box)
        if not as_json:
            _show(box, use)
        old = sum(use.counts[key] for key in box.key_ids[1:])
        if old:
            confirm(
                f"Encrypt {numbered(old, 'secret')} with the key {box.key_ids[0]}? Only that key will decrypt them.",
                yes=yes,
            )
        with progress("secrets", use.counts.total() + len(use.unreadable)) as advance:
            changed = rotation.rotate(database, box, advance)
        use = rotation.key_use(database, box)
    if as_json:
        print_json({"encrypted_anew": changed} | _shape(box, use))
    else:
        click.echo(f"{numbered(changed, 'secret')} re-encrypted")
        _show(box, use)
    _refuse_unreadable(use)
    if any(use.counts[key] for key in box.key_ids[1:]):
        raise CommandError(
            "some secrets were written with another key concurrently; put the same key first for all web processes, "
            "restart them, and run the command again"
        )


def _shape(box: SecretBox, use: KeyUse) -> dict[str, Any]:
    return {"keys": {key: use.counts[key] for key in box.key_ids}, "unreadable": use.unreadable}


def _show(box: SecretBox, use: KeyUse) -> None:
    for number, key in enumerate(box.key_ids):
        click.echo(f"key {key}: {numbered(use.counts[key], 'secret')}{' (encrypts)' if number == 0 else ''}")
    if use.unreadable:
        click.echo(f"no key: {numbered(len(use.unreadable), 'secret')} ({rotation.named(use.unreadable)})")


def _refuse_unreadable(use: KeyUse) -> None:
    if use.unreadable:
        number = numbered(len(use.unreadable), "secret")
        raise CommandError(f"{number} cannot be decrypted; add the key to {VARIABLE}, or store the values again")
