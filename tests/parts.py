"""The parts of the product that are installed alone, and what belongs to each."""

import re

import grimp

PACKAGES = ("actors", "app", "brokers", "schema")
# What starts each part.
PARTS = {"web": ["app.web", "app.cli"], "worker": ["actors", "brokers"], "scheduler": ["app.scheduler"]}
# Modules of features that a part never loads.
FOREIGN = {
    "web": re.compile(r"[._](chores|admission)$"),
    "worker": re.compile(r"[._](api|chores|cli|checks|reasons|section)$"),
    "scheduler": re.compile(r"[._](admission|api|cli|reasons|section)$"),
}
PROBE = "app.kernel.metrics.probe"
OPTIONAL = {"app.kernel.tracing.sdk"}  # needs the extra `traces`


def imports_of(*packages: str) -> grimp.ImportGraph:
    """Return what these packages import, functions included."""
    return grimp.build_graph(
        *packages, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def modules_of(part: str, graph: grimp.ImportGraph) -> set[str]:
    """Return all that a part imports, of ours and of others, at any depth.

    A feature's folder has modules of several parts, told apart by their names; `Feature` imports those of a process.
    """
    roots = {module for package in PARTS[part] for module in (package, *graph.find_descendants(package))} - OPTIONAL
    found, waiting = set[str](), [PROBE, *roots]
    while waiting:
        module = waiting.pop()
        if module not in found and not (module.startswith("app.features.") and FOREIGN[part].search(module)):
            found.add(module)
            waiting += graph.find_modules_directly_imported_by(module)
    return found - OPTIONAL
