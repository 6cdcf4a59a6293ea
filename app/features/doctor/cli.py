"""`flask doctor`: run all checks, show what they find, and repair what can be repaired safely."""

from collections.abc import Callable, Iterator

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.command_session import confirm, yes_option
from app.cli.console import json_option, print_json, show_line, show_table
from app.cli.exit_statuses import FAILED
from app.cli.progress_bar import progress
from app.features.doctor import clocks, completion_checks, schema_drift, stalled_rows, stalled_walks, surroundings
from app.features.doctor.finding import Finding, Patient
from app.web.services import services

Check = Callable[[Patient], Iterator[Finding]]

CHECKS: list[Check] = [
    *(clocks.this_machine, schema_drift.revision, schema_drift.shape),
    *(
        clocks.each_process,
        surroundings.server,
        surroundings.queues,
        surroundings.schedulers,
        surroundings.secrets,
        surroundings.bloat,
    ),
    *(
        stalled_rows.overdue,
        stalled_rows.lost,
        stalled_rows.stuck,
        stalled_rows.exhausted,
        stalled_rows.cut_off,
        stalled_rows.late_ends,
    ),
    *(stalled_walks.standing, completion_checks.callbacks, completion_checks.messages, completion_checks.remains),
]


@commands.command("doctor")
@click.option("--fix", "repairs", is_flag=True, help="repair what a scheduler would repair, too")
@yes_option
@json_option
@with_appcontext
def command(repairs: bool, yes: bool, as_json: bool) -> None:
    """Look for what is wrong, and say for each finding what puts it right.

    Exits with 0 when all is well, or was repaired, with 1 when findings are left.
    """
    found = _examine(Patient(services()))
    repaired = _repair(found, yes=yes, tell=not as_json) if repairs else {}
    if as_json:
        print_json({"findings": [_shape(each, repaired.get(id(each))) for each in found]})
    else:
        _show(found, repaired)
    if any(id(each) not in repaired for each in found):
        raise click.exceptions.Exit(FAILED)


def _examine(patient: Patient) -> list[Finding]:
    found = list[Finding]()
    with progress("checks", len(CHECKS)) as advance:
        for check in CHECKS:
            found += check(patient)
            advance(1)
            if any(each.ends for each in found):
                break
    return found


def _repair(found: list[Finding], *, yes: bool, tell: bool) -> dict[int, int]:
    repairs = {id(each): each.repair for each in found if each.repair is not None}
    if not repairs:
        return {}
    if tell and not yes:
        _show(found, {})
    confirm(f"Repair {len(repairs)} of these {len(found)} findings?", yes=yes)
    with progress("repairs", len(repairs)) as advance:
        repaired = {}
        for key, repair in repairs.items():
            repaired[key] = repair()
            advance(1)
    return repaired


def _shape(finding: Finding, repaired: int | None) -> dict[str, object]:
    shaped = {"check": finding.check, "problem": finding.problem, "fix": finding.fix}
    return shaped | {"fixable": finding.repair is not None, "repaired": repaired}


def _show(found: list[Finding], repaired: dict[int, int]) -> None:
    rows_ = [
        (each.check, each.problem, f"repaired: {repaired[id(each)]}" if id(each) in repaired else each.fix)
        for each in found
    ]
    if rows_:
        show_table(("CHECK", "PROBLEM", "FIX"), rows_)
    else:
        show_line("all is well")
