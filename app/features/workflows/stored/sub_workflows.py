"""Sub-workflows: nodes that name an endpoint of the type WORKFLOW, at most 8 workflows deep."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.catalog.specs.workflow import named_endpoints
from app.features.workflows.rules.workflow_bounds import MAX_DEPTH
from app.kernel.errors import Detail
from app.kernel.function_types import Fetch
from app.kernel.sql import statement

DEFINITIONS = statement(
    "workflows.definitions",
    """
    SELECT name, spec FROM endpoints
     WHERE name = ANY (CAST(:names AS TEXT[])) AND endpoint_type = 'WORKFLOW' AND deleted_at IS NULL
    """,
)


def depth_faults(fetch: Fetch, nodes: Sequence[Any], own: str | None = None) -> Iterator[Detail]:
    """Yield a fault of each node with an endpoint that nests too deep, or leads back to the endpoint `own`.

    Each level of definitions is read once.
    """
    paths: dict[str, tuple[str, ...]] = {name: (name,) for name in named_endpoints(nodes)}
    for depth in range(2, MAX_DEPTH + 2):
        rows = fetch(DEFINITIONS, {"names": sorted(paths)}) if paths else ()
        below = dict[str, tuple[str, ...]]()
        for row in rows:
            path = paths[row.name]
            if row.name == own or depth > MAX_DEPTH:
                yield _fault(nodes, path, is_loop=row.name == own)
                return
            below |= {name: (*path, name) for name in named_endpoints(row.spec.get("nodes"))}
        paths = below


def _fault(nodes: Sequence[Any], path: tuple[str, ...], *, is_loop: bool) -> Detail:
    index = next(index for index, node in enumerate(nodes) if path[0] in {*named_endpoints([node])})
    why = "lead back to this endpoint" if is_loop else f"are more than {MAX_DEPTH} deep"
    return Detail(pointer=f"/nodes/{index}", message=f"Its sub-workflows {why}: {' → '.join(path)}.")
