"""Sides of races between steps of workflows, and the bounds of their orders."""

from collections.abc import Sequence

from app.features.workflows.handlers import WORKFLOWS
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from tests.contract.features.workflows import flows

LEVELS = ["read committed", "serializable"]
TABLES = ["execution_ends", "attempts", "executions", "jobs", "workflow_edges", "workflow_nodes", "workflows"]
MAX_ORDERS = 400
MAX_CHOICES = 200


def outbox(event_ids: Sequence[str], database: Database) -> None:
    """Handle events, and continue their workflows, as the outbox thread of a worker does."""
    processor = OutboxProcessor(database, handlers=[WORKFLOWS])
    left = processor.handle(event_ids).follow_ups
    for _ in range(flows.MAX_STEPS):
        left = frozenset().union(*(processor.follow_up(*each).follow_ups for each in sorted(left)))
