"""`flask doctor`: run all checks, show their findings, and apply safe repairs."""

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import FAILED, confirm, yes_option
from app.cli.console import json_option, print_json, progress, show_line, show_table
from app.features.doctor import examination
from app.features.doctor.api import shape
from app.kernel.formats import numbered
from app.kernel.function_types import never
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding
from app.web.services import services, wake


@commands.command("doctor")
@click.option("--fix", "repairs", is_flag=True, help="apply the repairs that are safe")
@yes_option
@json_option
@with_appcontext
def command(repairs: bool, yes: bool, as_json: bool) -> None:
    """Find problems of the database and its rows, and show the fix of each.

    Exits with 0 if there is no finding or all were repaired, and with 1 if findings are left.
    """
    found = _examine()
    repaired = _repair(found, yes=yes, tell=not as_json) if repairs else {}
    if as_json:
        print_json({"findings": [shape(each) | {"repaired": repaired.get(each)} for each in found]})
    else:
        _show(found, repaired)
    if any(each not in repaired for each in found):
        raise click.exceptions.Exit(FAILED)


def _examine() -> list[Finding]:
    serving = services()
    context = ChoreContext(serving.database, serving.settings, hint=wake, stopping=never)
    checks = examination.checks(serving.features)
    with progress("checks", len(checks)) as advance:
        return examination.examine(context, checks, advance).findings


def _repair(found: list[Finding], *, yes: bool, tell: bool) -> dict[Finding, int]:
    repairs = [(each, each.repair) for each in found if each.repair is not None]
    if not repairs:
        return {}
    if tell and not yes:
        _show(found, {})
    confirm(f"Repair {len(repairs)} of {numbered(len(found), 'finding')}?", yes=yes)
    repaired = dict[Finding, int]()
    with progress("repairs", len(repairs)) as advance:
        for finding, repair in repairs:
            repaired[finding] = repair()
            advance(1)
    return repaired


def _show(found: list[Finding], repaired: dict[Finding, int]) -> None:
    if not found:
        return show_line("no findings")
    fixes = [f"repaired: {repaired[each]}" if each in repaired else each.fix for each in found]
    rows = [(each.check, each.problem, fix) for each, fix in zip(found, fixes, strict=True)]
    return show_table(("CHECK", "PROBLEM", "FIX"), rows)
