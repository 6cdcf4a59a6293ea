"""`flask catalog`: payload specs, configs, endpoints, routes and rules as a YAML document."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click


class CatalogFiles(Feature):
    """`flask catalog`: payload specs, configs, endpoints, routes and rules as a YAML document."""

    name = "catalog_files"

    def commands(self) -> "Sequence[click.Command]":
        from app.features.catalog_files import cli

        return [cli.group]
