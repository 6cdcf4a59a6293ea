"""Schemas of workflows in answers, and their queries."""

from marshmallow import Schema, fields, validate

from app.features.workflows.rules.graph_formats import NodeKind
from app.features.workflows.rules.model import NodeReason
from app.kernel.described_fields import answered, described
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
    name = fields.String(**answered(example=_NAME))
    labels = fields.Dict(required=True)
    status = fields.Enum(
        WorkflowStatus,
        **answered(
            "STOPPING: a node failed or the workflow was cancelled; running nodes end, handlers and "
            "clean-up run, and other nodes are skipped",
            example="RUNNING",
        ),
    )
    reason = fields.Enum(WorkflowReason, **answered("why it stops or stopped early", null=True, example=None))
    idempotency_key = fields.String(required=True, allow_none=True)
    on_failure = fields.Enum(OnFailure, by_value=True, **answered(example="stop"))
    max_parallel = fields.Integer(**answered(null=True, example=200))
    deadline_at = Instant(**answered(null=True, example=None))
    nodes = fields.Integer(**answered(example=5))
    open_nodes = fields.Integer(**answered("nodes that are not through", example=4))
    running = fields.Integer(**answered("unfinished executions of nodes and items", example=1))
    succeeded = fields.Integer(required=True)
    failed = fields.Integer(**answered(example=0))
    cancelled = fields.Integer(**answered(example=0))
    skipped = fields.Integer(**answered(example=0))
    progress = fields.Float(**answered("nodes that are through, as a part of all nodes", example=0.2))
    created_by = fields.String(**answered("name of the API key", null=True, example="reports"))
    endpoint = fields.String(**answered("with its definition", null=True, example=None))
    endpoint_version = fields.Integer(**answered(null=True, example=None))
    execution_id = fields.String(
        **answered("execution of its endpoint, which ends with the workflow", null=True, example=None)
    )
    parent_id = fields.String(**answered("workflow of which it is a node", null=True, example=None))
    parent_node = fields.Integer(**answered("number of that node", null=True, example=None))
    parent_item = fields.Integer(**answered("item of that node, from 1 on", null=True, example=None))
    depth = fields.Integer(**answered("1, and 1 more for each workflow around it", example=1))
    created_at = Instant(required=True)
    ended_at = Instant(**answered(null=True, example=None))


class WorkflowViewSchema(WorkflowSchema):
    """A workflow with its input, and the nodes that it waits for."""

    input = fields.Dict(**answered(OF_UNREADABLE, example={"user_id": "u_abc"}))
    waits_for = fields.List(
        fields.String(metadata={"example": _NODE}), **answered("names of running nodes, at most 10")
    )


class WorkflowItemSchema(Schema):
    """An item of a node, or a member of a group."""

    item = fields.Integer(**answered("number, from 1 on"))
    name = fields.String(**answered("of a member; `null` with `for_each`", null=True, example=None))
    endpoint = fields.String(required=True, allow_none=True)
    state = fields.Enum(NodeState, **answered(example="SUCCEEDED"))
    reason = fields.String(
        **answered(
            f"of a skip, or of an end without an attempt: {', '.join(NodeReason)}, or the reason in the "
            "history of its execution",
            null=True,
            example=None,
        )
    )
    message = fields.String(**answered("of `reason`", null=True, example=None))
    run = fields.Integer(**answered("number of the run; each has a job of its own"))
    job_id = fields.String(required=True, allow_none=True)
    execution_id = fields.String(required=True, allow_none=True)
    started_at = Instant(required=True, allow_none=True)
    ended_at = Instant(required=True, allow_none=True)


class WorkflowNodeSchema(WorkflowItemSchema):
    """A node of a workflow."""

    class Meta:
        exclude = ("item",)

    name = fields.String(**answered(example=_NODE))
    number = fields.Integer(attribute="node", **answered("larger than the numbers of its parents", example=2))
    kind = fields.Enum(NodeKind, by_value=True, **answered(example="for_each"))
    compensation = fields.Enum(NodeState, **answered("of its compensation", null=True, example=None))
    items = fields.Integer(
        **answered("items in all; `null` before the start and for other kinds of nodes", null=True, example=50)
    )
    items_open = fields.Integer(**answered("started and not ended", null=True, example=0))
    items_failed = fields.Integer(**answered(null=True, example=0))
    ready_at = Instant(**answered("time when all its parents were through", null=True))


class WorkflowNodeViewSchema(WorkflowNodeSchema):
    """A node with its definition and its neighbours."""

    after = fields.List(fields.String(metadata={"example": "mail"}), **answered("nodes before it"))
    before = fields.List(fields.String(metadata={"example": "follow-up"}), **answered("nodes behind it"))
    definition = fields.Dict(**answered(example={"endpoint": "push-notification", "for_each": ["phone", "tablet"]}))


class WorkflowGraphNodeSchema(Schema):
    number = fields.Integer(**answered("larger than the numbers of its parents"))
    name = fields.String(**answered(example=_NODE))
    endpoint = fields.String(required=True, allow_none=True)
    kind = fields.Enum(NodeKind, by_value=True, **answered(example="job"))
    state = fields.Enum(NodeState, **answered(example="RUNNING"))
    items = fields.Integer(**answered(null=True, example=None))
    compensation = fields.Enum(NodeState, **answered(null=True, example=None))


class WorkflowGraphSchema(Schema):
    """The graph of a workflow."""

    nodes = fields.List(fields.Nested(WorkflowGraphNodeSchema), required=True)
    edges = fields.List(
        fields.List(fields.Integer()),
        **answered("pairs of numbers: a node, and a node that waits for it", example=[[1, 2]]),
    )


class CriticalNodeSchema(Schema):
    """A node of a critical path."""

    name = fields.String(**answered(example=_NODE))
    state = fields.Enum(NodeState, **answered(example="SUCCEEDED"))
    ready_at = Instant(required=True)
    started_at = Instant(**answered("start of its first attempt; of a gate or a list: its own", null=True))
    ended_at = Instant(required=True, allow_none=True)
    waited_ms = fields.Integer(**answered("from ready to its start", example=3))
    ran_ms = fields.Integer(**answered("from its start to its end", example=412))


class CriticalPathSchema(Schema):
    """The critical path of a workflow."""

    nodes = fields.List(fields.Nested(CriticalNodeSchema), required=True)


class WorkflowExplanationSchema(Schema):
    status = fields.Enum(WorkflowStatus, **answered(example="RUNNING"))
    explanation = fields.String(
        **answered(example="RUNNING for 12 min: 1 of 2 nodes are through. It waits for notify, which runs 2 items.")
    )


class WorkflowChangeSchema(Schema):
    at = Instant(required=True)
    before = fields.Enum(WorkflowStatus, data_key="from", **answered(null=True, example=None))
    after = fields.Enum(WorkflowStatus, data_key="to", **answered(example="RUNNING"))
    actor = fields.String(**answered("an API key's name; `null` for the service", null=True, example="reports"))
    reason = fields.String(**answered(null=True, example=None))


class WorkflowHistorySchema(Schema):
    items = fields.List(fields.Nested(WorkflowChangeSchema), required=True)


class WorkflowQuery(PageQuery):
    status = fields.Enum(WorkflowStatus)
    name = fields.String(validate=validate.Length(1, MAX_JOB_NAME), **described(example=_NAME))
    labels = LabelSelector()
    parent_id = fields.String(**described("workflows that are nodes of this workflow"))
    created_after = QueryInstant()
    created_before = QueryInstant()


class WorkflowNodeQuery(PageQuery):
    state = fields.Enum(NodeState)


class CancelWorkflowQuery(Body):
    if_running = fields.Enum(
        IfRunning,
        by_value=True,
        **described(
            "`request`: the current attempts of running nodes are the last; `abort`: these attempts are "
            "also aborted; absent: running nodes run to their end"
        ),
    )
