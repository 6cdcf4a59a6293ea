"""Start of nodes: up to 500 nodes and items in a step become jobs, gates succeed, and stopped nodes are skipped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.catalog.templates.nodes import template_error
from app.features.workflows.rules.inputs import InputTemplate, compiled
from app.features.workflows.rules.model import STEP, NodeReason
from app.features.workflows.rules.workflow_bounds import MAX_ITEMS
from app.features.workflows.steps import item_rows, item_rules, node_jobs
from app.features.workflows.steps.node_jobs import NodeJob, NodeTarget
from app.features.workflows.steps.step import WorkflowStep
from app.features.workflows.stored import node_rows, total_items, variables
from app.features.workflows.stored.node_rows import WorkflowNode
from app.kernel.db.hot import run_in
from app.kernel.errors import Detail, TemplateError
from app.kernel.sql import hot_statement
from app.queue.executions.node_key import NodeKey
from schema.states import NodeState, WorkflowStatus

MAX_STEP_CHARACTERS = 4_194_304  # of the inputs of a step; CockroachDB accepts 16 MiB in a statement

READY = hot_statement(
    "workflow_nodes.ready",
    """
    SELECT {columns} FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.state IN ('READY', 'EXPANDING') ORDER BY n.node, n.item LIMIT :limit
    """,
    columns=node_rows.COLUMNS,
)


def start(connection: Connection, step: WorkflowStep) -> None:
    """Start what is ready and has room, unless the workflow is paused."""
    if step.workflow.status is WorkflowStatus.PAUSED:
        node_rows.write(connection, step.workflow_id, step.ready)
        return
    nodes = [*_written(connection, step), *step.ready]
    started = _StartedNodes(step)
    waiting = [node for node in nodes if not started.end(node)]
    started.add(connection, waiting[: step.room(STEP)])
    started.keep(step.ready)
    if not started.changed:
        return
    step.has_changed = True
    node_jobs.create(connection, step, started.jobs)
    _write(connection, step, started)


def _written(connection: Connection, step: WorkflowStep) -> list[WorkflowNode]:
    if not step.has_ready:
        return []
    rows = run_in(connection, READY, {"workflow_id": step.workflow_id, "limit": STEP})
    return [WorkflowNode.of_row(row) for row in rows]


@dataclass(slots=True)
class _Plan:
    """A node that may start, with its compiled templates: of its list, and of the input of each next job."""

    node: WorkflowNode
    list: InputTemplate | None
    inputs: Sequence[InputTemplate]
    first: int = 0  # index of the item of the first input, in a group

    @classmethod
    def of(cls, node: WorkflowNode, room: int) -> "_Plan":
        given = node.definition
        if "group" in given:
            members = given["group"][node.items_made : node.items_made + room]
            inputs = [compiled(member.get("input", {}), "/input") for member in members]
            return cls(node, None, inputs, node.items_made)
        items = compiled(given["for_each"], "/for_each") if "for_each" in given else None
        return cls(node, items, [compiled(given.get("input", {}), "/input")])

    @property
    def templates(self) -> Sequence[InputTemplate]:
        return self.inputs if self.list is None else [self.list, *self.inputs]

    @property
    def endpoints(self) -> set[str]:
        members = self.node.definition.get("group", ())
        return {member["endpoint"] for member in members} | ({self.node.endpoint} if self.node.endpoint else set())

    def entries(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """Return the members of a group, or the items of a list; raises TemplateError if there is no valid list."""
        if self.list is None:
            members: Sequence[Any] = self.node.definition["group"]
            return members
        found = self.list.render(values)
        if not isinstance(found, list) or len(found) > MAX_ITEMS:
            message = f"`for_each` must be a list of at most {MAX_ITEMS:,} items."
            raise template_error([Detail(pointer="/for_each", message=message)])
        return found

    def job(self, workflow_id: str, entries: Sequence[Any], index: int) -> NodeJob:
        """Return the job of an item."""
        node, given = self.node, self.node.definition
        key = NodeKey(workflow_id, node.node, index + 1, node.run)
        if self.list is None:
            member, template = entries[index], self.inputs[index - self.first]
            name = member["name"]
            return NodeJob(key=key, name=name, endpoint=member["endpoint"], definition=member, template=template)
        item = {"item": entries[index], "item_number": index + 1}
        endpoint, template = node.endpoint or "", self.inputs[0]
        return NodeJob(key=key, name=None, endpoint=endpoint, definition=given, template=template, item=item)


class _StartedNodes:
    """Nodes that a step starts or ends.

    Attributes:
        changed: Nodes to write.
        jobs: Nodes and items that become jobs, or were refused.
    """

    def __init__(self, step: WorkflowStep) -> None:
        self.changed: list[WorkflowNode] = []
        self.jobs: list[NodeJob] = []
        self._step = step
        self._characters = self._items = self._running = 0
        self._values: Mapping[str, Any] = {}
        self._targets: Mapping[str, NodeTarget] = {}

    def end(self, node: WorkflowNode) -> bool:
        """End a node that needs no job: a skipped node, a gate, or a node that starts no further item."""
        decision = node.decision(self._step.reason)
        if node.state is NodeState.EXPANDING:
            item_rules.settle(node, self._step.reason)
            is_over = node.state is not NodeState.EXPANDING
        elif decision.state is NodeState.SKIPPED:
            node.end(decision.state, decision.reason)
            is_over = True
        elif is_over := node.endpoint is None and not node.has_items:
            node.end(NodeState.SUCCEEDED)
        if is_over:
            self.changed.append(node)
        return is_over

    def add(self, connection: Connection, nodes: Sequence[WorkflowNode]) -> None:
        """Start nodes one after the other, while there is room; at least one item of each has room."""
        if not nodes:
            return
        room = self._room
        plans = [_Plan.of(node, room) for node in nodes]
        self._values = variables.read(
            connection, self._step.workflow_id, [each for plan in plans for each in plan.templates]
        )
        names = set[str]().union(*(plan.endpoints for plan in plans))
        self._targets = node_jobs.read_targets(connection, self._step.workflow, names)
        if any(plan.list is not None and plan.node.state is NodeState.READY for plan in plans):
            self._items = total_items.count(connection, self._step.workflow_id)
        for plan in plans:
            if not self._room:
                break
            if plan.node.has_items:
                self._expand(plan)
            else:
                self._start(plan)
            self.changed.append(plan.node)

    def keep(self, nodes: Sequence[WorkflowNode]) -> None:
        """Write nodes that are ready since this step and have no room, for a later step."""
        changed = {node.node for node in self.changed}
        self.changed += [node for node in nodes if node.node not in changed]

    @property
    def _room(self) -> int:
        """Number of further jobs; none once the inputs of the step are large."""
        room = min(self._step.room(STEP) - self._running, STEP - len(self.jobs))
        return 0 if self._characters > MAX_STEP_CHARACTERS else max(0, room)

    def _start(self, plan: _Plan) -> None:
        node = plan.node
        job = NodeJob(
            key=NodeKey(self._step.workflow_id, node.node, 0, node.run),
            name=node.name,
            endpoint=node.endpoint or "",
            definition=node.definition,
            template=plan.inputs[0],
        )
        self._prepare(node, job)
        if job.reason is None:
            node.state = NodeState.RUNNING
        else:
            node.end(NodeState.FAILED, job.reason, job.message)

    def _expand(self, plan: _Plan) -> None:
        """Start the next items of a node."""
        node, stopping, entries = plan.node, self._step.reason, list[Any]()
        try:
            entries = [*plan.entries(self._values)]
            if node.state is NodeState.READY and plan.list is not None:
                self._items = total_items.with_more(self._items, len(entries))
        except TemplateError as error:
            if node.state is NodeState.READY:
                node.end(NodeState.FAILED, NodeReason.INPUT_UNRESOLVABLE, error.details[0]["message"])
                return
        if node.state is NodeState.READY:
            node.items = len(entries)
        elif len(entries) < node.items:
            # The result that had the list is gone: no further item can start.
            node.items_failed += node.items - node.items_made
            node.items_made = node.items
        for _ in range(item_rules.may_start(node, stopping)):
            if not self._room:
                break
            self._prepare(node, plan.job(self._step.workflow_id, entries, node.items_made))
            node.items_made += 1
            node.items_open += 1
        item_rules.settle(node, stopping)

    def _prepare(self, node: WorkflowNode, job: NodeJob) -> None:
        self._characters += node_jobs.prepare(
            job, node.name, self._step.workflow, values=self._values, targets=self._targets
        )
        self.jobs.append(job)
        self._running += job.reason is None


def _write(connection: Connection, step: WorkflowStep, started: _StartedNodes) -> None:
    by_node = {node.node: node for node in started.changed}
    for job in started.jobs:
        if not job.key.item and job.reason is None:
            node = by_node[job.key.node]
            node.job_id, node.execution_id = job.job_id, job.execution_id
    node_rows.write(connection, step.workflow_id, started.changed)
    item_rows.add_items(connection, step.workflow_id, [job for job in started.jobs if job.key.item])
