"""Events: changes of jobs, executions, workers, breakers and definitions, as a list and as Server-Sent Events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Resource


class Events(Feature):
    name = "events"

    def resources(self) -> "Sequence[Resource]":
        from app.features.events import api

        return [api.resource]
