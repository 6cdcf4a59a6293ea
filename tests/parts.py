"""Parts of the product that are installed separately, and the modules of each part."""

import re

import grimp

PACKAGES = ("actors", "app", "brokers", "schema")
# Packages that each part starts from.
PARTS = {"web": ["app.web", "app.cli"], "worker": ["actors", "brokers"], "scheduler": ["app.scheduler"]}
# Modules of features that a part never imports.
FOREIGN = {
    "web": re.compile(r"[._](chores|admission)$"),
    "worker": re.compile(r"[._](api|chores|cli|checks|pages?|reasons|section)$"),
    "scheduler": re.compile(r"[._](admission|api|cli|pages?|reasons|section)$"),
}
PROBE = "app.kernel.metrics.probe"
OPTIONAL = {"app.kernel.tracing.sdk"}  # needs the extra `traces`


def imports_of(*packages: str) -> grimp.ImportGraph:
    """Return the import graph of these packages, including imports inside functions."""
    return grimp.build_graph(
        *packages, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def modules_of(part: str, graph: grimp.ImportGraph) -> set[str]:
    """Return all modules that a part imports at any depth, including third-party modules.

    A feature's folder holds modules of several parts, distinguished by name. `Feature` imports only the modules of the
    running part.
    """
    roots = {module for package in PARTS[part] for module in (package, *graph.find_descendants(package))} - OPTIONAL
    found, waiting = set[str](), [PROBE, *roots]
    while waiting:
        module = waiting.pop()
        if module not in found and not (module.startswith("app.features.") and FOREIGN[part].search(module)):
            found.add(module)
            waiting += graph.find_modules_directly_imported_by(module)
    return found - OPTIONAL
