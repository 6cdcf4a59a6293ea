"""Payload specs: JSON Schemas for the input of jobs; a change affects jobs created from then on."""

from typing import Any

from app.catalog import dependents, json_schema
from app.catalog.named_table import Named, NamedTable
from app.kernel.audit import ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import PayloadSpecNotFoundError
from schema import tables

PAYLOAD_SPECS = NamedTable(
    table=tables.payload_specs,
    value=tables.payload_specs.c.schema_json,
    noun="payload spec",
    resource_type=ResourceType.PAYLOAD_SPEC,
    not_found=PayloadSpecNotFoundError,
    dependents=dependents.OF_PAYLOAD_SPEC,
    is_cached=False,
)


def create(database: Database, name: str, schema: Any, change: AuditedChange) -> Named:
    """Store a payload spec; raises InvalidSchemaError or ConflictError."""
    json_schema.check_schema(schema)
    return PAYLOAD_SPECS.create(database, name, schema, change)


def replace(database: Database, name: str, schema: Any, change: AuditedChange) -> Named:
    """Change a payload spec; raises as `NamedTable.replace`, and InvalidSchemaError."""
    json_schema.check_schema(schema)
    return PAYLOAD_SPECS.replace(database, name, schema, change)
