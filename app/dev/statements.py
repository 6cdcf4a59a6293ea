"""`make sql NAME=executions.claim_1`: prints a registered statement as it runs, with all its parts in place.

Without a name: lists the statements and the files that register them.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from types import ModuleType

from app.kernel.sql import IN_REGIONS, REGISTRY

ROOT = Path(__file__).parents[2]
# Statements, deletions, and the statements of a kind of bulk job.
_REGISTERS = re.compile(r"from app\.kernel\.(sql|db\.deletion) import |BulkJobStore\(")


def sources() -> Iterator[Path]:
    """Return the modules that register statements."""
    for path in sorted((ROOT / "app").rglob("*.py")):
        if path.parent.name != "dev" and _REGISTERS.search(path.read_text()):
            yield path


def modules() -> list[ModuleType]:
    """Import the modules that register statements."""
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources())
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


def files() -> Mapping[str, str]:
    """Return the file of each statement by the statement's name; empty for a name that is built from parts."""
    modules()
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sources()}
    written = {name: f'"{name.removesuffix("_in_regions")}"' for name in REGISTRY}
    return {
        name: next((file for file, text in texts.items() if quoted in text), "") for name, quoted in written.items()
    }


def shown(name: str, file: str) -> str:
    """Return a statement as SQL with its parameters, after a comment with its name and file."""
    second = "; a second form chooses rows of :regions only" if REGISTRY[name] in IN_REGIONS else ""
    return f"-- {name}  {file}{second}\n{cleandoc(REGISTRY[name].text)};\n"


def main(names: list[str]) -> int:
    found = files()
    if not names:
        print("\n".join(f"{name:44}{file}".rstrip() for name, file in sorted(found.items())))
        return 0
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"no statement is called {', '.join(unknown)}; `make sql` lists all names", file=sys.stderr)
        return 1
    print("\n".join(shown(name, found[name]) for name in names), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
