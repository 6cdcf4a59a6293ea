"""`flask doctor` and `GET /doctor`: find and repair problems of the database and its rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Check, Command, Resource


class Doctor(Feature):
    name = "doctor"

    def resources(self) -> "Sequence[Resource]":
        from app.features.doctor import api

        return [api.resource]

    def commands(self) -> "Sequence[Command]":
        from app.features.doctor import cli

        return [cli.command]

    def checks(self) -> "Sequence[Check]":
        from app.features.doctor import checks

        return checks.CHECKS
