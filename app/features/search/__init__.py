"""Search: one word may be an id, a name, an idempotency key, a label, a worker or a target."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Resource


class Search(Feature):
    name = "search"

    def resources(self) -> "Sequence[Resource]":
        from app.features.search import api

        return [api.resource]
