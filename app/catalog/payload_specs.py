"""Payload specs: the JSON Schemas that the input of jobs must match."""

from typing import Any

from sqlalchemy import Connection

from app.catalog import dependents, json_schema
from app.catalog.named import Named, NamedRows
from app.db import Database
from app.errors import PayloadSpecNotFoundError
from schema import tables

ROWS = NamedRows(tables.payload_specs, tables.payload_specs.c.schema_json, "payload spec", PayloadSpecNotFoundError)


def create(database: Database, name: str, schema: Any) -> Named:
    """Store a payload spec; raises InvalidSchemaError or ConflictError."""
    json_schema.check(schema)
    return database.transact(lambda connection: ROWS.insert(connection, name, schema))


def replace(database: Database, name: str, schema: Any) -> Named:
    """Change a payload spec; it binds the jobs created from now on."""
    json_schema.check(schema)
    return database.transact(lambda connection: ROWS.replace(connection, name, schema))


def delete(database: Database, name: str) -> None:
    """Delete a payload spec; raises ConflictError while something refers to it."""

    def body(connection: Connection) -> None:
        ROWS.lock(connection, name)
        dependents.refuse(connection, dependents.OF_PAYLOAD_SPEC, ROWS.noun, name)
        ROWS.delete(connection, name)

    database.transact(body)
