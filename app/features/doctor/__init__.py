"""`flask doctor`: what is wrong with the database and with what it holds, and how to put it right."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click


class Doctor(Feature):
    """`flask doctor`: what is wrong with the database and with what it holds, and how to put it right."""

    name = "doctor"

    def commands(self) -> "Sequence[click.Command]":
        from app.features.doctor import cli

        return [cli.command]
