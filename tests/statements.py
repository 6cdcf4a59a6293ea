"""All registered statements: imports each module that registers a statement."""

from app.dev.statements import modules
from app.kernel.sql import IN_REGIONS, REGISTRY

MODULES = modules()
STATEMENTS = sorted(REGISTRY.items())

__all__ = ["IN_REGIONS", "MODULES", "REGISTRY", "STATEMENTS"]
