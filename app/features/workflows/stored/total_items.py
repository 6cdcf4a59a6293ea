"""Number of items of a workflow, and its bound, which is checked when a list begins."""

from sqlalchemy import Connection

from app.catalog.templates.nodes import template_error
from app.features.workflows.rules.workflow_bounds import MAX_ALL_ITEMS
from app.kernel.errors import Detail
from app.kernel.sql import statement

# Read once in a step that begins lists. A creation checks the members of groups, whose number it knows.
COUNT = statement(
    "workflow_nodes.count_items",
    """
    SELECT COALESCE(CAST(sum(items) AS BIGINT), 0) AS items FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND item = 0
    """,
)


def count(connection: Connection, workflow_id: str) -> int:
    """Count the items of nodes that have begun."""
    items: int = connection.execute(COUNT, {"workflow_id": workflow_id}).scalar_one()
    return items


def with_more(items: int, more: int) -> int:
    """Return the number with the items of another list; raises TemplateError beyond the bound."""
    if items + more > MAX_ALL_ITEMS:
        message = f"The workflow would have more than {MAX_ALL_ITEMS:,} items: it has {items:,}, and the list {more:,}."
        raise template_error([Detail(pointer="/for_each", message=message)])
    return items + more
