"""All registered statements: imports each module that registers a statement."""

import importlib
import re
from pathlib import Path

from app.kernel.sql import IN_REGIONS, REGISTRY

ROOT = Path(__file__).parents[1]
# Statements, deletions, and the statements of a kind of bulk job.
REGISTERS = re.compile(r"from app\.kernel\.(sql|db\.deletion) import |BulkJobStore\(")
MODULES = [
    importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    for path in sorted((ROOT / "app").rglob("*.py"))
    if REGISTERS.search(path.read_text())
]
STATEMENTS = sorted(REGISTRY.items())

__all__ = ["IN_REGIONS", "MODULES", "REGISTRY", "STATEMENTS"]
