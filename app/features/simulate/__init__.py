"""Simulation: what repeating jobs would start in the time to come."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click


class Simulate(Feature):
    """Simulation: what repeating jobs would start in the time to come."""

    name = "simulate"

    def commands(self) -> "Sequence[click.Command]":
        from app.features.simulate import cli

        return [cli.command]
