"""`flask catalog export`, `diff` and `apply`."""

from typing import TextIO

import click

from app.cli.commands import FAILED, CommandError, ServiceGroup, confirm, one_line, ready_database, yes_option
from app.cli.console import json_option, print_json, progress, show_line
from app.features.catalog_files import change_plan
from app.features.catalog_files.change_plan import CatalogChange
from app.features.catalog_files.document import Document, StoredCatalog, dumped, parsed
from app.kernel.db import Database
from app.kernel.formats import numbered

_STYLES = {"+": "green", "-": "red", "@": "dim"}

group = ServiceGroup("catalog", help="Export, compare and apply all definitions as one YAML document.")

_file = click.argument("file", type=click.File("r", encoding="utf-8"))
_delete = click.option("--delete", is_flag=True, help="delete definitions that are not in the document")


@group.command("export")
@json_option
def export(as_json: bool) -> None:
    """Print payload specs, configs, endpoints, routes, notification rules and the names of secrets.

    The document has the values of configs. It has neither values of secrets nor pauses.
    """
    with ready_database() as database:
        document = StoredCatalog.read(database).document().as_json()
    if as_json:
        print_json(document)
    else:
        click.echo(dumped(document), nl=False)


@group.command("diff")
@_file
@_delete
@json_option
def diff(file: TextIO, delete: bool, as_json: bool) -> None:
    """Show the changes that `apply` would make. FILE may be -, for standard input.

    Exits with 1 if there are changes.
    """
    with ready_database() as database:
        _, steps = _plan(database, file, delete=delete)
    if as_json:
        print_json({"changes": [_shape(step) for step in steps]})
    else:
        _show(steps)
    if steps:
        raise click.exceptions.Exit(FAILED)


@group.command("apply")
@_file
@_delete
@yes_option
@json_option
def apply(file: TextIO, delete: bool, yes: bool, as_json: bool) -> None:
    """Make the stored definitions equal to a document, after showing the changes. FILE may be -, for standard input.

    Applying a document twice changes nothing the second time. Each change is a separate transaction. A change fails
    with exit status 4 if its definition was changed after it was shown. The changes before it stay; a second run
    continues.
    """
    with ready_database() as database:
        document, steps = _plan(database, file, delete=delete)
        if missing := sorted({*document.secrets}.difference(StoredCatalog.read(database).secrets)):
            raise CommandError(f"store these secrets first, by POST /secrets: {', '.join(missing)}")
        if not as_json:
            _show(steps)
        if steps:
            confirm(f"Make {numbered(len(steps), 'change')}?", yes=yes)
        _apply(database, steps)
    if as_json:
        print_json({"changes": [_shape(step) for step in steps]})


def _plan(database: Database, file: TextIO, *, delete: bool) -> tuple[Document, list[CatalogChange]]:
    try:
        text = file.read()
    except UnicodeDecodeError:
        raise CommandError(f"{file.name} is not UTF-8") from None
    document, stored = parsed(text, file.name), StoredCatalog.read(database)
    change_plan.check(document, stored)
    return document, change_plan.steps(document, stored, delete=delete)


def _apply(database: Database, steps: list[CatalogChange]) -> None:
    with progress("changes", len(steps)) as advance:
        for number, step in enumerate(steps):
            try:
                with one_line():
                    step.apply(database)
            except CommandError as error:
                made = f"made {number} of {numbered(len(steps), 'change')}"
                message = f"{step.action} {step.kind} {step.name}: {error.message} ({made})"
                raise CommandError(message, error.exit_code) from error
            advance(1)


def _shape(step: CatalogChange) -> dict[str, object]:
    return {"action": step.action, "kind": step.kind, "name": step.name, "before": step.before, "after": step.after}


def _show(steps: list[CatalogChange]) -> None:
    for step in steps:
        show_line(f"{step.action} {step.kind} {step.name}".rstrip(), "bold")
        for line in step.difference():
            show_line(f"    {line}", _STYLES.get(line[:1], ""))
    if not steps:
        show_line("no differences")
