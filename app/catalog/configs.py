"""Configs: static values that templates refer to as {{config.*}}."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from app.catalog import dependents, revision
from app.catalog.named import Named, NamedRows
from app.db import Database
from app.errors import ConfigNotFoundError
from schema import tables

ROWS = NamedRows(tables.configs, tables.configs.c.values_json, "config", ConfigNotFoundError)


def create(database: Database, name: str, values: Mapping[str, Any]) -> Named:
    """Store a config; raises ConflictError when the name is taken."""

    def body(connection: Connection) -> Named:
        config = ROWS.insert(connection, name, values)
        revision.bump(connection)
        return config

    return database.transact(body)


def replace(database: Database, name: str, values: Mapping[str, Any]) -> Named:
    """Change a config; it takes effect for attempts that have not begun."""

    def body(connection: Connection) -> Named:
        config = ROWS.replace(connection, name, values)
        revision.bump(connection)
        return config

    return database.transact(body)


def delete(database: Database, name: str) -> None:
    """Delete a config; raises ConflictError while something refers to it."""

    def body(connection: Connection) -> None:
        ROWS.lock(connection, name)
        dependents.refuse(connection, dependents.OF_CONFIG, ROWS.noun, name)
        ROWS.delete(connection, name)
        revision.bump(connection)

    database.transact(body)
