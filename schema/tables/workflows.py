"""Workflows: graphs of nodes; each node becomes a job once its parents have ended."""

from schema.states import NodeState, OnFailure, WorkflowReason, WorkflowStatus
from schema.tables.columns import check, count, flag, index, instant, json, one_of, region, table, word

_KEY = "workflow_id, node, item"
FAILED_WORKFLOW = "ended_at IS NOT NULL AND reason IN ('NODE_FAILED', 'DEADLINE')"
"""Condition of the index of workflows that ended early without a request to cancel them."""
MAY_START = "(state IN ('WAITING', 'READY', 'EXPANDING') OR state = 'RUNNING' AND items_made < items)"
"""Condition of nodes that may still start jobs of their own."""
MAY_BE_UNDONE = """(n.definition @> '{"compensate": {}}' OR n.definition @> '{"group": [{"compensate": {}}]}')"""
"""Condition that a node `n`, or a member of its group, has a compensation."""
# No foreign keys: a key check would lock the row of the workflow, which only one step at a time may lock.
workflows = table(
    "workflows",
    word("workflow_id", key=True),
    region(),
    word("name", required=True),
    # NULL if a workflow has no labels, so that the index has no entry for it.
    json("labels"),
    json("input", required=True),
    word("idempotency_key"),
    word("status", default=WorkflowStatus.RUNNING),
    # Set once the workflow stops early, also while it is PAUSED.
    word("reason"),
    # Default of the nodes, which have their own copies.
    word("on_failure", default=OnFailure.STOP),
    # A node with `on_failure: compensate` failed.
    flag("compensates", default=False),
    # Executions of the workflow that may be unfinished at the same time; NULL: no limit.
    count("max_parallel"),
    instant("deadline_at"),
    # A retry starts the deadline again.
    count("deadline_ms"),
    # Attempt of an execution that the workflow is, by an endpoint of the type WORKFLOW; NULL: created by a request.
    word("execution_id"),
    count("attempt"),
    word("endpoint"),
    count("endpoint_version"),
    # Node of another workflow that the execution belongs to.
    word("parent_id"),
    count("parent_node"),
    count("parent_item"),
    # Number of workflows from the outermost to this workflow.
    count("depth", default=1),
    # Request to cancel its execution that was forwarded to its nodes: 'request' or 'abort'.
    word("forwarded"),
    # Request to executions that are still to be cancelled: 'none', 'request' or 'abort'; NULL: no cancellation is left.
    word("cancelling"),
    count("nodes", required=True),
    # Nodes whose ends are not counted yet. The workflow ends with the last of them.
    count("open_nodes", required=True),
    # Unfinished executions of nodes and items.
    count("running", default=0),
    # Ended nodes by their states; items count in their nodes.
    count("succeeded", default=0),
    count("failed", default=0),
    count("cancelled", default=0),
    count("skipped", default=0),
    # Each step and each change of the status increments the revision, if it is still the revision that was read.
    count("revision", default=0),
    word("actor"),
    word("trace_context"),
    instant("created_at", default_now=True),
    instant("ended_at"),
    one_of("status", "chk_workflows_statuses", WorkflowStatus),
    one_of("reason", "chk_workflows_reason", WorkflowReason),
    one_of("on_failure", "chk_workflows_on_failures", OnFailure),
    check(
        "chk_workflows_is_over",
        "(status NOT IN ('RUNNING', 'PAUSED', 'STOPPING', 'COMPENSATING')) = (ended_at IS NOT NULL)",
    ),
    check("chk_workflows_stopping", "status <> 'STOPPING' OR reason IS NOT NULL"),
    check("chk_workflows_open", "open_nodes >= 0 AND running >= 0"),
    index("uq_workflows_idempotency", "idempotency_key", unique=True),
    # Lists, newest first.
    index("idx_workflows_created", "created_at, workflow_id"),
    index("idx_workflows_status", "status, created_at, workflow_id"),
    index("idx_workflows_name", "name, created_at, workflow_id"),
    index("idx_workflows_parent", "parent_id, created_at, workflow_id", where="parent_id IS NOT NULL"),
    index("idx_workflows_labels", "labels", using="gin", where="labels IS NOT NULL"),
    index(
        "idx_workflows_deadline",
        "deadline_at, workflow_id",
        where="deadline_at IS NOT NULL AND ended_at IS NULL",
    ),
    # Failures, for notifications.
    index("idx_workflows_failed", "ended_at, workflow_id", where=FAILED_WORKFLOW),
    # Nearly empty.
    index("idx_workflows_cancelling", "workflow_id", where="cancelling IS NOT NULL"),
    index("idx_workflows_ended", "ended_at, workflow_id", where="ended_at IS NOT NULL"),
)

# Nodes (item 0) and the items of nodes with `for_each` or `group` (from 1 on); item -1 - n undoes item n.
workflow_nodes = table(
    "workflow_nodes",
    word("workflow_id", key=True),
    # Topological number from 1 on: greater than the numbers of all parents.
    count("node", key=True),
    count("item", key=True),
    region(),
    # NULL for an item of a list.
    word("name"),
    # NULL for a gate or a group.
    word("endpoint"),
    # Endpoints of members and compensations, also the own one; NULL if there are none.
    json("other_endpoints"),
    # As app.features.workflows.rules.graph stores it; NULL for an item.
    json("definition"),
    word("state", default=NodeState.WAITING),
    # Reason of a skip, or of an end without an execution; `message` explains it to a user.
    word("reason"),
    word("message"),
    # 1; a retry of the node increments it and makes a new job.
    count("run", default=1),
    word("job_id"),
    word("execution_id"),
    # Parents that have not reported their end, and reported parents that did not go well.
    count("open_parents", default=0),
    count("failed_parents", default=0),
    # Number of the last child to which the ended node has reported, from 0 on; NULL: the node has nothing to report.
    count("reported_to"),
    # After a manual retry of its execution, the end from before settles nothing, and a step takes back the report.
    instant("retried_end"),
    flag("is_reopened", default=False),
    # Items in all, started, started and not ended, failed or cancelled; NULL until a node with items starts.
    count("items"),
    count("items_made"),
    count("items_open"),
    count("items_failed"),
    instant("ready_at"),
    instant("started_at"),
    instant("ended_at"),
    one_of("state", "chk_workflow_nodes_state", NodeState),
    check("chk_workflow_nodes_parents", "open_parents >= 0 AND failed_parents >= 0"),
    check("chk_workflow_nodes_items", "items_open >= 0 AND items_made <= items"),
    check(
        "chk_workflow_nodes_ended",
        "(state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')) = (ended_at IS NOT NULL)",
    ),
    # Reads by numbers cannot use it: with few statistics, the planner would read the whole workflow for each node.
    index("uq_workflow_nodes_named", "workflow_id, name", unique=True, where="item = 0 AND name IS NOT NULL"),
    index("uq_workflow_nodes_execution", "execution_id", unique=True),
    # Nearly empty: the work that is left for a step.
    index("idx_workflow_nodes_reporting", _KEY, where="reported_to IS NOT NULL"),
    index("idx_workflow_nodes_reopened", _KEY, where="is_reopened"),
    index("idx_workflow_nodes_ready", _KEY, where="state IN ('READY', 'EXPANDING')"),
    # Nodes that may still start jobs, by their endpoints, which cannot be deleted.
    index("idx_workflow_nodes_endpoint", "endpoint, workflow_id", where=MAY_START),
    # Nodes of any state: a node may be undone until its workflow ends.
    index("idx_workflow_nodes_others", "other_endpoints", using="gin", where="other_endpoints IS NOT NULL"),
    # Read from workflow to workflow, to find ends that no process has handled.
    index("idx_workflow_nodes_running", _KEY, where="state = 'RUNNING'"),
)

# Edges of graphs; they never change.
workflow_edges = table(
    "workflow_edges",
    word("workflow_id", key=True),
    count("parent", key=True),
    count("child", key=True),
    # All edges; reads of the children of a node cannot use it, as above.
    index("idx_workflow_edges_to", "workflow_id, child, parent", where="child > 1"),
)

# Changes of the status of workflows.
workflow_events = table(
    "workflow_events",
    word("event_id", key=True),
    word("workflow_id", required=True),
    # NULL: created.
    word("from_status"),
    word("to_status", required=True),
    word("actor"),
    word("reason"),
    instant("occurred_at", default_now=True),
    one_of("from_status", "chk_workflow_events_from_status", WorkflowStatus),
    one_of("to_status", "chk_workflow_events_to_status", WorkflowStatus),
    index("idx_workflow_events_workflow", "workflow_id, occurred_at, event_id"),
    # Events of all workflows in their order.
    index("idx_workflow_events_occurred", "occurred_at, event_id"),
)
