"""Creation of a workflow: its row, nodes and edges in one transaction; roots are READY, other nodes WAITING."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Connection

from app.kernel import ids
from app.kernel.errors import UnavailableError
from app.kernel.formats import array_literal, compact_json
from app.kernel.sql import statement
from schema.states import NodeState, WorkflowStatus

if TYPE_CHECKING:
    from app.features.workflows.rules.graph import Graph, GraphNode

T = TypeVar("T")
NODES_AT_ONCE = 1_000
EDGES_AT_ONCE = 5_000

WORKFLOW = statement(
    "workflows.create",
    """
    INSERT INTO workflows (workflow_id, name, labels, input, idempotency_key, on_failure, max_parallel, nodes,
                           open_nodes, actor, trace_context, deadline_ms, deadline_at, execution_id, attempt, endpoint,
                           endpoint_version, parent_id, parent_node, parent_item, depth)
    VALUES (:workflow_id, :name, CAST(:labels AS JSONB), CAST(:input AS JSONB), :idempotency_key, :on_failure,
            CAST(:max_parallel AS BIGINT), :nodes, :nodes, CAST(:actor AS TEXT), CAST(:trace_context AS TEXT),
            CAST(:deadline_ms AS BIGINT), now() + CAST(:deadline_ms AS BIGINT) * INTERVAL '1 millisecond',
            CAST(:execution_id AS TEXT), CAST(:attempt AS BIGINT), CAST(:endpoint AS TEXT),
            CAST(:endpoint_version AS BIGINT), CAST(:parent_id AS TEXT), CAST(:parent_node AS BIGINT),
            CAST(:parent_item AS BIGINT), :depth)
    ON CONFLICT DO NOTHING
    RETURNING workflow_id
    """,
)
# Also finds the row of an earlier run of the same transaction, whose answer was lost.
FIRST = statement(
    "workflows.find_first",
    """
    SELECT workflow_id FROM workflows WHERE workflow_id = :workflow_id
    UNION ALL
    SELECT workflow_id FROM workflows WHERE idempotency_key = :idempotency_key
    """,
)
BY_KEY = statement("workflows.find_by_key", "SELECT workflow_id FROM workflows WHERE idempotency_key = :key")
NODES = statement(
    "workflows.create_nodes",
    """
    INSERT INTO workflow_nodes (workflow_id, node, item, name, endpoint, other_endpoints, definition, open_parents,
                                state, ready_at)
    SELECT :workflow_id, u.node, 0, u.name, u.endpoint, CAST(u.other_endpoints AS JSONB),
           CAST(u.definition AS JSONB), u.parents,
           CASE WHEN u.parents = 0 THEN '{ready}' ELSE '{waiting}' END, CASE WHEN u.parents = 0 THEN now() END
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:names AS TEXT[]), CAST(:endpoints AS TEXT[]),
                  CAST(:other_endpoints AS TEXT[]), CAST(:definitions AS TEXT[]), CAST(:parents AS BIGINT[]))
           AS u (node, name, endpoint, other_endpoints, definition, parents)
    """,
    ready=NodeState.READY,
    waiting=NodeState.WAITING,
)
EDGES = statement(
    "workflows.create_edges",
    """
    INSERT INTO workflow_edges (workflow_id, parent, child)
    SELECT :workflow_id, u.parent, u.child
      FROM unnest(CAST(:parents AS BIGINT[]), CAST(:children AS BIGINT[])) AS u (parent, child)
    """,
)
EVENT = statement(
    "workflows.create_event",
    """
    INSERT INTO workflow_events (event_id, workflow_id, to_status, actor)
    VALUES (:event_id, :workflow_id, '{running}', :actor)
    """,
    running=WorkflowStatus.RUNNING,
)
ENDPOINTS = statement(
    "workflows.endpoints",
    "SELECT name, keep_response FROM endpoints WHERE name = ANY (CAST(:names AS TEXT[])) AND deleted_at IS NULL",
)
# Blocks the deletion of the endpoints, which then finds the nodes.
LIVE = statement(
    "workflows.lock_endpoints",
    """
    SELECT name FROM endpoints WHERE name = ANY (CAST(:names AS TEXT[])) AND deleted_at IS NULL
     ORDER BY name FOR KEY SHARE
    """,
)


class WorkflowOrigin(NamedTuple):
    """Origin of a workflow: a request, or an attempt of an execution, which may belong to a node (`parent_…`)."""

    execution_id: str | None = None
    attempt: int | None = None
    endpoint: str | None = None
    endpoint_version: int | None = None
    parent_id: str | None = None
    parent_node: int | None = None
    parent_item: int | None = None
    depth: int = 1


_REQUEST = WorkflowOrigin()


class EndpointsDeletedError(Exception):
    """An endpoint of the graph was deleted since the graph was checked."""


class CreatedWorkflow(NamedTuple):
    """A workflow, and whether this call created it; otherwise it is the first workflow with the key."""

    workflow_id: str
    is_new: bool


def create(
    connection: Connection,
    graph: "Graph",
    workflow_id: str,
    *,
    actor: str | None,
    trace: str | None = None,
    origin: WorkflowOrigin = _REQUEST,
) -> CreatedWorkflow:
    """Store a workflow under a new id, unless its key is taken; a repeated call with the id changes nothing.

    Raises EndpointsDeletedError, or UnavailableError.
    """
    key = {"workflow_id": workflow_id, "idempotency_key": graph.idempotency_key}
    row = {
        "name": graph.name,
        "labels": compact_json(graph.labels) if graph.labels else None,
        "input": compact_json(graph.input),
        "on_failure": graph.on_failure.value,
        "max_parallel": graph.max_parallel,
        "deadline_ms": graph.deadline_ms,
        "nodes": len(graph.nodes),
        "actor": actor,
        "trace_context": trace,
    }
    if not connection.execute(WORKFLOW, key | row | origin._asdict()).all():
        first: str | None = connection.execute(FIRST, key).scalars().first()
        if first is None:
            raise UnavailableError("The workflow with this idempotency key was just deleted. Retry later.")
        return CreatedWorkflow(first, is_new=first == workflow_id)
    names = sorted(graph.endpoints)
    if len(connection.execute(LIVE, {"names": names}).all()) < len(names):
        raise EndpointsDeletedError
    for nodes in _batches(graph.nodes, NODES_AT_ONCE):
        connection.execute(NODES, {"workflow_id": workflow_id} | _columns(nodes))
    for edges in _batches(graph.edges, EDGES_AT_ONCE):
        parents, children = zip(*edges, strict=True)
        ends = {"parents": array_literal(parents), "children": array_literal(children)}
        connection.execute(EDGES, {"workflow_id": workflow_id} | ends)
    connection.execute(EVENT, {"event_id": ids.event_id(), "workflow_id": workflow_id, "actor": actor})
    return CreatedWorkflow(workflow_id, is_new=True)


def _columns(nodes: "Sequence[GraphNode]") -> dict[str, Any]:
    return {
        "nodes": array_literal(node.number for node in nodes),
        "names": array_literal(node.name for node in nodes),
        "endpoints": [node.endpoint for node in nodes],
        "other_endpoints": [compact_json(node.other_endpoints) if node.other_endpoints else None for node in nodes],
        "definitions": [node.definition for node in nodes],
        "parents": array_literal(len(node.parents) for node in nodes),
    }


def _batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch
