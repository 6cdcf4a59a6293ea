"""Callbacks: the completion of an execution creates a job of another endpoint."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Check, Handler, Resource


class Callbacks(Feature):
    name = "callbacks"

    def resources(self) -> "Sequence[Resource]":
        from app.features.callbacks import api

        return [api.resource]

    def handlers(self) -> "Sequence[Handler]":
        from app.features.callbacks import handlers

        return [handlers.CALLBACKS]

    def checks(self) -> "Sequence[Check]":
        from app.features.callbacks import checks

        return [checks.callbacks]
