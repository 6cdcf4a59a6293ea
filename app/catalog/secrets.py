"""Secrets: encrypted values that templates refer to as {{secret.*}}; no function here returns one."""

from sqlalchemy import Connection

from app.catalog import dependents, revision
from app.catalog.named import Named, NamedRows
from app.db import Database
from app.errors import SecretNotFoundError
from schema import tables

ROWS = NamedRows(tables.secrets, tables.secrets.c.encrypted_value, "secret", SecretNotFoundError, is_hidden=True)


def create(database: Database, name: str, encrypted: bytes) -> Named:
    """Store a secret; raises ConflictError when the name is taken."""

    def body(connection: Connection) -> Named:
        secret = ROWS.insert(connection, name, encrypted)
        revision.bump(connection)
        return secret

    return database.transact(body)


def replace(database: Database, name: str, encrypted: bytes) -> Named:
    """Change a secret; the next claim of any worker sees it."""

    def body(connection: Connection) -> Named:
        secret = ROWS.replace(connection, name, encrypted)
        revision.bump(connection)
        return secret

    return database.transact(body)


def delete(database: Database, name: str) -> None:
    """Delete a secret; raises ConflictError while something refers to it."""

    def body(connection: Connection) -> None:
        ROWS.lock(connection, name)
        dependents.refuse(connection, dependents.OF_SECRET, ROWS.noun, name)
        ROWS.delete(connection, name)
        revision.bump(connection)

    database.transact(body)
