"""Registered statements, from all modules that register one, and the tables that statements of Core write."""

import re
from collections.abc import Iterable

from app.dev.statements import modules
from app.kernel.sql import IN_REGIONS, REGISTRY

MODULES = modules()
STATEMENTS = sorted(REGISTRY.items())

INSERT, DELETE = "INSERT INTO", "DELETE FROM"
# Tables whose statements are built with Core; tests/integration/test_core_statements.py finds them all.
BUILT = {
    INSERT: {
        *("bulk_operations", "configs", "endpoint_versions", "endpoints", "notification_rules", "payload_specs"),
        *("redrives", "secrets"),
    },
    DELETE: {"configs", "notification_rules", "payload_specs", "secrets"},
}


def tables_of(verb: str, texts: Iterable[str]) -> set[str]:
    """Return the tables that statements change with INSERT or DELETE."""
    return {table for sql in texts for table in re.findall(rf"{verb}\s+([a-z_]+)", sql)}


__all__ = ["BUILT", "DELETE", "INSERT", "IN_REGIONS", "MODULES", "REGISTRY", "STATEMENTS", "tables_of"]
