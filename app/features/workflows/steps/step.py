"""Step of a workflow: its row as read, and the changes that one transaction makes."""

from collections import Counter
from dataclasses import dataclass, field

from app.features.workflows.stored.node_rows import WorkflowNode
from app.kernel.db.rows import RowValue
from schema.states import NodeState, OnFailure, WorkflowReason, WorkflowStatus


class StepOvertakenError(Exception):
    """Another process changed the workflow since the step read it; the step has to begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWorkflow(RowValue):
    """Row of a workflow, except its input. It may have ended only if retries of executions have marked its nodes."""

    workflow_id: str
    name: str
    labels: dict[str, str] | None
    status: WorkflowStatus
    reason: WorkflowReason | None
    on_failure: OnFailure
    compensates: bool
    max_parallel: int | None
    cancelling: str | None
    open_nodes: int
    running: int
    revision: int
    is_over: bool
    is_marked: bool
    has_ready: bool
    trace_context: str | None
    execution_id: str | None
    shards: int
    look_ahead_ms: int

    @property
    def is_plain(self) -> bool:
        """Whether a step reports ends and starts nodes: nothing is taken back, cancelled or compensated."""
        is_undone = self.cancelling is not None or self.status is WorkflowStatus.COMPENSATING
        return not (self.is_marked or is_undone)


@dataclass(slots=True)
class WorkflowStep:
    """Changes of one step; they become true with its commit.

    Attributes:
        workflow: Row of the workflow, as read.
        reason: Reason why the workflow stops early; set by a failed node.
        compensates: Whether a failed node asks for a compensation.
        compensation: Status of a workflow that compensates, after the step.
        ready: Nodes that may start since this step, which are not written yet.
        has_ready: Whether further nodes may start, which are written.
        ended: Numbers of nodes whose ends are counted in this step, by their states.
        running: Change of the number of unfinished executions.
        started: Number of nodes and items that became jobs.
        lasted_seconds: Time from the creation of the workflow to its end; None if this step did not end it.
        has_changed: Whether the step changed a row.
        queues: Numbers of executions that became due, by queue.
        ends: Ids of completion events of an execution that has ended with this workflow.
    """

    workflow: OpenWorkflow
    reason: WorkflowReason | None
    compensates: bool
    compensation: WorkflowStatus | None = None
    ready: list[WorkflowNode] = field(default_factory=list)
    has_ready: bool = False
    ended: Counter[NodeState] = field(default_factory=Counter)
    running: int = 0
    started: int = 0
    lasted_seconds: float | None = None
    has_changed: bool = False
    queues: Counter[str] = field(default_factory=Counter)
    ends: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, workflow: OpenWorkflow) -> "WorkflowStep":
        return cls(workflow, workflow.reason, workflow.compensates, has_ready=workflow.has_ready)

    @property
    def workflow_id(self) -> str:
        return self.workflow.workflow_id

    @property
    def is_through(self) -> bool:
        """Whether no node is left."""
        return self.workflow.open_nodes == self.ended.total()

    @property
    def is_undone(self) -> bool:
        """Whether the workflow undoes its succeeded nodes once it is through."""
        if self.reason is WorkflowReason.DEADLINE:
            return self.workflow.on_failure is OnFailure.COMPENSATE
        return self.reason is WorkflowReason.NODE_FAILED and self.compensates

    @property
    def status(self) -> WorkflowStatus:
        """Status of the workflow after the step: it ends with its last node, and a paused workflow stays paused."""
        if self.compensation is not None or self.workflow.status is WorkflowStatus.COMPENSATING:
            return self.compensation or WorkflowStatus.COMPENSATING
        if self.is_through:
            if self.reason is None:
                return WorkflowStatus.SUCCEEDED
            return WorkflowStatus.CANCELLED if self.reason is WorkflowReason.CANCELLED else WorkflowStatus.FAILED
        if self.reason is not None and self.workflow.status is WorkflowStatus.RUNNING:
            return WorkflowStatus.STOPPING
        return self.workflow.status

    def room(self, most: int) -> int:
        """Return how many executions may start, at most `most`."""
        limit = self.workflow.max_parallel
        return most if limit is None else max(0, min(most, limit - self.workflow.running - self.running))
