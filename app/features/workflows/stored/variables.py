"""Variables of the templates of nodes: the input of the workflow, and the results of nodes that have ended."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.rules.inputs import InputTemplate
from app.features.workflows.rules.model import STEP
from app.features.workflows.stored.node_rows import is_current
from app.kernel.formats import Unreadable, compact_json, stored_json
from app.kernel.sql import statement
from schema.job_bounds import MAX_INPUT_BYTES
from schema.states import NodeState

INPUT = statement("workflows.input", "SELECT input FROM workflows WHERE workflow_id = :workflow_id")
PARENTS = statement(
    "workflow_nodes.parents",
    """
    SELECT n.node, n.name, n.state, n.reason, n.message, n.endpoint, n.execution_id, n.items, n.items_failed,
           (n.definition->'for_each') IS NOT NULL OR (n.definition->'group') IS NOT NULL AS has_items, e.output, a.error
      FROM workflow_nodes AS n
      LEFT JOIN executions AS e ON e.execution_id = n.execution_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
                             AND e.status <> 'SUCCESS'
     WHERE n.workflow_id = :workflow_id AND n.name = ANY (CAST(:names AS TEXT[])) AND n.item = 0
       AND n.name IS NOT NULL
    """,
)
RESULTS = statement(
    "workflow_nodes.results",
    """
    SELECT n.item, e.output
      FROM workflow_nodes AS n LEFT JOIN executions AS e ON e.execution_id = n.execution_id AND e.status = 'SUCCESS'
     WHERE n.workflow_id = :workflow_id AND n.node = :node AND n.item > :after AND {is_current}
     ORDER BY n.item LIMIT :limit
    """,
    is_current=is_current("n"),
)


class ResultsTooLargeError(Exception):
    """The results of a node with items are larger than an input may be."""


def read(connection: Connection, workflow_id: str, templates: Iterable[InputTemplate]) -> dict[str, Any]:
    """Read the values of the variables `workflow` and `parents` that the templates refer to.

    Returns:
        Values by the first steps of paths. A value that cannot be read is missing. In place of `results` that are too
        large stands a ResultsTooLargeError.
    """
    paths = {reference.path for template in templates for reference in template.references}
    workflow: dict[str, Any] = {"id": workflow_id}
    if any(path[:2] == ("workflow", "input") for path in paths):
        workflow["input"] = connection.execute(INPUT, {"workflow_id": workflow_id}).scalar()
    names = sorted({path[1] for path in paths if path[0] == "parents" and len(path) > 1})
    parents = {}
    if names:
        for row in connection.execute(PARENTS, {"workflow_id": workflow_id, "names": names}).all():
            parents[row.name] = _node(row)
            if ("parents", row.name, "results") in {path[:3] for path in paths}:
                parents[row.name]["results"] = _results(connection, workflow_id, row.node)
    return {"workflow": workflow, "parents": parents}


def too_large(template: InputTemplate, variables: Mapping[str, Any]) -> str | None:
    """Return the name of a node whose results are too large for the template; None if there is none."""
    for reference in template.references:
        match reference.path:
            case ("parents", name, "results", *_):
                node = variables["parents"].get(name, {})
                if isinstance(node.get("results"), ResultsTooLargeError):
                    return name
    return None


def _node(row: Row[Any]) -> dict[str, Any]:
    if row.has_items:
        items, failed = row.items or 0, row.items_failed or 0
        return {"status": row.state, "count": items, "failed": failed, "succeeded": items - failed}
    if row.endpoint is None:
        return {"status": row.state}
    values = {"status": row.state, "execution_id": row.execution_id, "error": _error(row)}
    return values | ({"output": parsed(row.output)} if row.state == NodeState.SUCCEEDED else {})


def parsed(output: Any) -> Any:
    """Return an output whose body is a JSON object or list, in place of its text; another body stays a text."""
    body = output.get("body") if isinstance(output, dict) else None
    if not isinstance(body, str) or not body.lstrip().startswith(("{", "[")):
        return output
    try:
        value = stored_json(body)
        # Escapes of a text that the database refuses in JSON: the NUL character, and half a pair of surrogates.
        is_storable = b"\\u0000" not in compact_json(value).encode()
    except ValueError:
        return output
    return output | {"body": value} if is_storable and not isinstance(value, Unreadable) else output


def _error(row: Row[Any]) -> dict[str, Any]:
    """Return the error of a node: of its last attempt, else its reason; with null if the node did not fail."""
    if row.error is not None:
        return dict(row.error)
    message = row.message or (None if row.reason is None else f"The node is {row.state}: {row.reason}.")
    return {"type": row.reason, "message": message}


def _results(connection: Connection, workflow_id: str, node: int) -> list[Any] | ResultsTooLargeError:
    """Return the outputs of the items of a node in their order, null for an item that did not succeed."""
    results, size, after = list[Any](), 0, 0
    while True:
        params = {"workflow_id": workflow_id, "node": node, "after": after, "limit": STEP}
        rows = connection.execute(RESULTS, params).all()
        for row in rows:
            results.append(parsed(row.output))
            size += len(compact_json(row.output))
            if size > MAX_INPUT_BYTES:
                return ResultsTooLargeError()
        if len(rows) < STEP:
            return results
        after = rows[-1].item
