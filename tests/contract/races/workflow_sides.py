"""Sides of races between steps of workflows, and the bounds of their orders."""

from collections.abc import Sequence

from app.kernel.db import Database
from tests.contract.features.workflows import flows

LEVELS = ["read committed", "serializable"]
TABLES = ["execution_ends", "attempts", "executions", "jobs", "workflow_edges", "workflow_nodes", "workflows"]
MAX_ORDERS = 400
MAX_CHOICES = 200


def outbox(event_ids: Sequence[str], database: Database) -> None:
    """Handle events, and advance their workflows, as the outbox thread of a worker does."""
    for workflow_id in flows.handle(database, event_ids):
        flows.advance(database, workflow_id)
