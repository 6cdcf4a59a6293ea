"""Simulate: forecast of the executions that repeating jobs will start."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Command, ConsolePage, Resource


class Simulate(Feature):
    name = "simulate"

    def resources(self) -> "Sequence[Resource]":
        from app.features.simulate import api

        return [api.resource]

    def commands(self) -> "Sequence[Command]":
        from app.features.simulate import cli

        return [cli.command]

    def pages(self) -> "Sequence[ConsolePage]":
        from app.features.simulate.pages import what_if_page

        return [what_if_page.page]
