"""Configs: static values that templates refer to as {{config.*}}; a change affects attempts that have not begun."""

from app.audit import ResourceType
from app.catalog import dependents
from app.catalog.named_table import NamedTable
from app.errors import ConfigNotFoundError
from schema import tables

CONFIGS = NamedTable(
    table=tables.configs,
    value=tables.configs.c.values_json,
    noun="config",
    resource_type=ResourceType.CONFIG,
    not_found=ConfigNotFoundError,
    dependents=dependents.OF_CONFIG,
)
