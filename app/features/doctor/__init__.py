"""`flask doctor`: find and repair problems of the database and its rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click

    from app.scheduler.finding import Check


class Doctor(Feature):
    name = "doctor"

    def commands(self) -> "Sequence[click.Command]":
        from app.features.doctor import cli

        return [cli.command]

    def checks(self) -> "Sequence[Check]":
        from app.features.doctor import checks

        return checks.CHECKS
