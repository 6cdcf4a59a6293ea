"""Configs: static values that templates refer to as {{config.*}}.

A change affects executions that have not begun. All attempts of an execution use the values as of its first claim.
"""

from app.catalog import dependents
from app.catalog.named_table import NamedTable
from app.kernel.audit import ResourceType
from app.kernel.errors import ConfigNotFoundError
from schema import tables

CONFIGS = NamedTable(
    table=tables.configs,
    value=tables.configs.c.values_json,
    noun="config",
    resource_type=ResourceType.CONFIG,
    not_found=ConfigNotFoundError,
    dependents=dependents.OF_CONFIG,
    is_kept=True,
)
