"""The parts of the product that are installed alone, and what belongs to each."""

import grimp

PACKAGES = ("actors", "app", "brokers", "schema")
# What starts each part.
PARTS = {"web": ["app.web", "app.cli", "app.features"], "worker": ["actors", "brokers"], "scheduler": ["app.scheduler"]}
PROBE = "app.kernel.metrics.probe"
OPTIONAL = {"app.kernel.tracing.sdk"}  # needs the extra `traces`


def imports_of(*packages: str) -> grimp.ImportGraph:
    """Return what these packages import, functions included."""
    return grimp.build_graph(
        *packages, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def modules_of(part: str, graph: grimp.ImportGraph) -> set[str]:
    """Return all that a part imports, of ours and of others, at any depth."""
    roots = {module for package in PARTS[part] for module in (package, *graph.find_descendants(package))} - OPTIONAL
    return {PROBE}.union(roots, *(graph.find_upstream_modules(root) for root in roots)) - OPTIONAL
