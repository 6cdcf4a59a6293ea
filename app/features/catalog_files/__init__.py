"""Catalog files: the definitions as a YAML document, by `flask catalog export`, `diff` and `apply`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Command


class CatalogFiles(Feature):
    name = "catalog_files"

    def commands(self) -> "Sequence[Command]":
        from app.features.catalog_files import cli

        return [cli.group]
