"""Queues: pause and resume a queue; routes from endpoints to queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.web.openapi.resource import Resource


class Queues(Feature):
    """Queues: pause and resume a queue; routes from endpoints to queues."""

    name = "queues"

    def resources(self) -> "Sequence[Resource]":
        from app.features.queues import api, routes_api

        return [api.resource, routes_api.resource, routes_api.questions]
