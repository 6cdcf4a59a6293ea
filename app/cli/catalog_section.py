"""Section of the catalog document: named values of one kind, added by a feature."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from marshmallow import Schema

from app.catalog.named_table import NamedTable


class CatalogSection:
    """Mapping from names to values under `key`; a document without the key leaves them unchanged."""

    key: ClassVar[str]
    table: ClassVar[NamedTable]
    schema: ClassVar[type[Schema]]

    def stored_value(self, loaded: dict[str, Any]) -> Mapping[str, Any]:
        """Return the stored form of an entry that the schema has loaded."""
        return loaded

    def check(self, name: str, value: Mapping[str, Any], endpoints: Collection[str]) -> None:
        """Raise CommandError, or an error of the service, if the value is invalid together with these endpoints."""
