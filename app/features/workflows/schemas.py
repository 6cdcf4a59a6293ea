"""Schemas of workflows in answers, and their queries."""

from marshmallow import Schema, fields, validate

from app.features.workflows.rules.graph_formats import NodeKind
from app.features.workflows.rules.model import NodeReason
from app.queue.executions.execution_cancellation import IfRunning
from app.web.http.pagination import PageQuery
from app.web.http.request_fields import OF_UNREADABLE, Body, Instant, QueryInstant
from app.web.jobs.labels import LabelSelector
from schema.job_bounds import MAX_JOB_NAME
from schema.states import NodeState, OnFailure, WorkflowReason, WorkflowStatus

_NAME, _NODE = "welcome", "notify"


class WorkflowSchema(Schema):
    """A workflow."""

    workflow_id = fields.String(required=True)
    name = fields.String(required=True, metadata={"example": _NAME})
    labels = fields.Dict(required=True)
    status = fields.Enum(
        WorkflowStatus,
        required=True,
        metadata={
            "description": "STOPPING: a node failed or the workflow was cancelled; running nodes end, handlers and "
            "clean-up run, and other nodes are skipped",
            "example": "RUNNING",
        },
    )
    reason = fields.Enum(
        WorkflowReason,
        required=True,
        allow_none=True,
        metadata={"description": "why it stops or stopped early", "example": None},
    )
    idempotency_key = fields.String(required=True, allow_none=True)
    on_failure = fields.Enum(OnFailure, by_value=True, required=True, metadata={"example": "stop"})
    max_parallel = fields.Integer(required=True, allow_none=True, metadata={"example": 200})
    deadline_at = Instant(required=True, allow_none=True, metadata={"example": None})
    nodes = fields.Integer(required=True, metadata={"example": 5})
    open_nodes = fields.Integer(required=True, metadata={"description": "nodes that are not through", "example": 4})
    running = fields.Integer(
        required=True, metadata={"description": "unfinished executions of nodes and items", "example": 1}
    )
    succeeded = fields.Integer(required=True)
    failed = fields.Integer(required=True, metadata={"example": 0})
    cancelled = fields.Integer(required=True, metadata={"example": 0})
    skipped = fields.Integer(required=True, metadata={"example": 0})
    progress = fields.Float(
        required=True, metadata={"description": "nodes that are through, as a part of all nodes", "example": 0.2}
    )
    created_by = fields.String(
        required=True, allow_none=True, metadata={"description": "name of the API key", "example": "reports"}
    )
    endpoint = fields.String(
        required=True, allow_none=True, metadata={"description": "with its definition", "example": None}
    )
    endpoint_version = fields.Integer(required=True, allow_none=True, metadata={"example": None})
    execution_id = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "execution of its endpoint, which ends with the workflow", "example": None},
    )
    parent_id = fields.String(
        required=True, allow_none=True, metadata={"description": "workflow of which it is a node", "example": None}
    )
    parent_node = fields.Integer(
        required=True, allow_none=True, metadata={"description": "number of that node", "example": None}
    )
    parent_item = fields.Integer(
        required=True, allow_none=True, metadata={"description": "item of that node, from 1 on", "example": None}
    )
    depth = fields.Integer(
        required=True, metadata={"description": "1, and 1 more for each workflow around it", "example": 1}
    )
    created_at = Instant(required=True)
    ended_at = Instant(required=True, allow_none=True, metadata={"example": None})


class WorkflowViewSchema(WorkflowSchema):
    """A workflow with its input, and the nodes that it waits for."""

    input = fields.Dict(required=True, metadata={"description": OF_UNREADABLE, "example": {"user_id": "u_abc"}})
    waits_for = fields.List(
        fields.String(metadata={"example": _NODE}),
        required=True,
        metadata={"description": "names of running nodes, at most 10"},
    )


class WorkflowItemSchema(Schema):
    """An item of a node, or a member of a group."""

    item = fields.Integer(required=True, metadata={"description": "number, from 1 on"})
    name = fields.String(
        required=True, allow_none=True, metadata={"description": "of a member; `null` with `for_each`", "example": None}
    )
    endpoint = fields.String(required=True, allow_none=True)
    state = fields.Enum(NodeState, required=True, metadata={"example": "SUCCEEDED"})
    reason = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": f"of a skip, or of an end without an attempt: {', '.join(NodeReason)}, or the reason in the "
            "history of its execution",
            "example": None,
        },
    )
    message = fields.String(required=True, allow_none=True, metadata={"description": "of `reason`", "example": None})
    run = fields.Integer(required=True, metadata={"description": "number of the run; each has a job of its own"})
    job_id = fields.String(required=True, allow_none=True)
    execution_id = fields.String(required=True, allow_none=True)
    started_at = Instant(required=True, allow_none=True)
    ended_at = Instant(required=True, allow_none=True)


class WorkflowNodeSchema(WorkflowItemSchema):
    """A node of a workflow."""

    class Meta:
        exclude = ("item",)

    name = fields.String(required=True, metadata={"example": _NODE})
    number = fields.Integer(
        required=True,
        attribute="node",
        metadata={"description": "larger than the numbers of its parents", "example": 2},
    )
    kind = fields.Enum(NodeKind, by_value=True, required=True, metadata={"example": "for_each"})
    compensation = fields.Enum(
        NodeState, required=True, allow_none=True, metadata={"description": "of its compensation", "example": None}
    )
    items = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "items in all; `null` before the start and for other kinds of nodes", "example": 50},
    )
    items_open = fields.Integer(
        required=True, allow_none=True, metadata={"description": "started and not ended", "example": 0}
    )
    items_failed = fields.Integer(required=True, allow_none=True, metadata={"example": 0})
    ready_at = Instant(
        required=True, allow_none=True, metadata={"description": "time when all its parents were through"}
    )


class WorkflowNodeViewSchema(WorkflowNodeSchema):
    """A node with its definition and its neighbours."""

    after = fields.List(
        fields.String(metadata={"example": "mail"}), required=True, metadata={"description": "nodes before it"}
    )
    before = fields.List(
        fields.String(metadata={"example": "follow-up"}), required=True, metadata={"description": "nodes behind it"}
    )
    definition = fields.Dict(
        required=True,
        metadata={"example": {"endpoint": "push-notification", "for_each": ["phone", "tablet"]}},
    )


class WorkflowGraphNodeSchema(Schema):
    number = fields.Integer(required=True, metadata={"description": "larger than the numbers of its parents"})
    name = fields.String(required=True, metadata={"example": _NODE})
    endpoint = fields.String(required=True, allow_none=True)
    kind = fields.Enum(NodeKind, by_value=True, required=True, metadata={"example": "job"})
    state = fields.Enum(NodeState, required=True, metadata={"example": "RUNNING"})
    items = fields.Integer(required=True, allow_none=True, metadata={"example": None})
    compensation = fields.Enum(NodeState, required=True, allow_none=True, metadata={"example": None})


class WorkflowGraphSchema(Schema):
    """The graph of a workflow."""

    nodes = fields.List(fields.Nested(WorkflowGraphNodeSchema), required=True)
    edges = fields.List(
        fields.List(fields.Integer()),
        required=True,
        metadata={"description": "pairs of numbers: a node, and a node that waits for it", "example": [[1, 2]]},
    )


class CriticalNodeSchema(Schema):
    """A node of a critical path."""

    name = fields.String(required=True, metadata={"example": _NODE})
    state = fields.Enum(NodeState, required=True, metadata={"example": "SUCCEEDED"})
    ready_at = Instant(required=True)
    started_at = Instant(
        required=True,
        allow_none=True,
        metadata={"description": "start of its first attempt; of a gate or a list: its own"},
    )
    ended_at = Instant(required=True, allow_none=True)
    waited_ms = fields.Integer(required=True, metadata={"description": "from ready to its start", "example": 3})
    ran_ms = fields.Integer(required=True, metadata={"description": "from its start to its end", "example": 412})


class CriticalPathSchema(Schema):
    """The critical path of a workflow."""

    nodes = fields.List(fields.Nested(CriticalNodeSchema), required=True)


class WorkflowExplanationSchema(Schema):
    status = fields.Enum(WorkflowStatus, required=True, metadata={"example": "RUNNING"})
    explanation = fields.String(
        required=True,
        metadata={"example": "RUNNING for 12 min: 1 of 2 nodes are through. It waits for notify, which runs 2 items."},
    )


class WorkflowChangeSchema(Schema):
    at = Instant(required=True)
    before = fields.Enum(WorkflowStatus, required=True, allow_none=True, data_key="from", metadata={"example": None})
    after = fields.Enum(WorkflowStatus, required=True, data_key="to", metadata={"example": "RUNNING"})
    actor = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "an API key's name; `null` for the service", "example": "reports"},
    )
    reason = fields.String(required=True, allow_none=True, metadata={"example": None})


class WorkflowHistorySchema(Schema):
    items = fields.List(fields.Nested(WorkflowChangeSchema), required=True)


class WorkflowQuery(PageQuery):
    status = fields.Enum(WorkflowStatus)
    name = fields.String(validate=validate.Length(1, MAX_JOB_NAME), metadata={"example": _NAME})
    labels = LabelSelector()
    parent_id = fields.String(metadata={"description": "workflows that are nodes of this workflow"})
    created_after = QueryInstant()
    created_before = QueryInstant()


class WorkflowNodeQuery(PageQuery):
    state = fields.Enum(NodeState)


class CancelWorkflowQuery(Body):
    if_running = fields.Enum(
        IfRunning,
        by_value=True,
        metadata={
            "description": "`request`: the current attempts of running nodes are the last; `abort`: these attempts are "
            "also aborted; absent: running nodes run to their end"
        },
    )
