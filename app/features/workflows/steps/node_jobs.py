"""Jobs of nodes and items: an input is rendered and checked; the key of the job is its place in the workflow."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection

from app.features.workflows.rules.inputs import InputTemplate
from app.features.workflows.rules.model import NodeReason
from app.features.workflows.steps.step import OpenWorkflow, WorkflowStep
from app.features.workflows.stored import variables
from app.kernel.db.hot import run_in
from app.kernel.errors import TemplateError
from app.kernel.formats import compact_json, is_deeper
from app.kernel.sql import statement
from app.queue.executions.node_key import NodeKey
from app.queue.jobs import endpoint_cache, job_insertion
from app.queue.jobs.endpoint_cache import CachedEndpoint
from app.queue.jobs.job_model import NewJob
from schema.job_bounds import MAX_INPUT_BYTES, MAX_JOB_NAME, MAX_JSON_DEPTH
from schema.states import ExecutionStatus, Followed, NodeState, Trigger

_NODE = int(Followed.NODE)
_OWN = ("queue", "priority", "max_attempts", "delay_ms")  # parameters that a definition may set

FIND_BY_KEY = statement(
    "workflow_nodes.find_jobs",
    """
    SELECT j.job_id, j.idempotency_key, e.execution_id
      FROM unnest(CAST(:endpoints AS TEXT[]), CAST(:keys AS TEXT[])) AS u (endpoint, key)
      JOIN jobs AS j ON j.endpoint = u.endpoint AND j.idempotency_key = u.key
      JOIN executions AS e ON e.job_id = j.job_id
    """,
)


class EndpointChangedError(Exception):
    """An endpoint has changed since the step read it."""


@dataclass(slots=True, kw_only=True)
class NodeJob:
    """A node or an item that starts, and the result of its start.

    Attributes:
        key: NodeJob of the job.
        name: Name of the node, or of the member of a group; None for an item of a list.
        endpoint: Name of the endpoint.
        definition: Input and fields of the job.
        template: Compiled input.
        item: Values of the variables `item` and `item_number`; empty outside of lists.
    """

    key: NodeKey
    name: str | None
    endpoint: str
    definition: Mapping[str, Any]
    template: InputTemplate
    item: Mapping[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    reason: NodeReason | None = None
    message: str | None = None
    job_id: str | None = None
    execution_id: str | None = None

    @property
    def state(self) -> NodeState:
        return NodeState.RUNNING if self.reason is None else NodeState.FAILED

    def refuse(self, reason: NodeReason, message: str) -> None:
        """End the node or item without a job."""
        self.reason, self.message, self.params = reason, message, {}


class NodeTarget(NamedTuple):
    """An endpoint of nodes of a workflow, and the parameters that all their jobs of it have."""

    endpoint: CachedEndpoint
    params: Mapping[str, Any]

    @classmethod
    def of(cls, endpoint: CachedEndpoint, workflow: OpenWorkflow) -> "NodeTarget":
        labels = workflow.labels or {}
        new = NewJob(endpoint=endpoint.name, trigger=Trigger.IMMEDIATE, input={}, labels=labels)
        params = job_insertion.params_of(new, endpoint, "", workflow.shards)
        params.update(
            followed=(params["followed"] or 0) | _NODE,
            trace_context=workflow.trace_context,
            look_ahead_ms=workflow.look_ahead_ms,
        )
        return cls(endpoint, params)


def read_targets(connection: Connection, workflow: OpenWorkflow, names: Collection[str]) -> Mapping[str, NodeTarget]:
    """Read the endpoints that still exist."""
    found = endpoint_cache.read_targets(connection, names)
    return {name: NodeTarget.of(endpoint, workflow) for name, endpoint in found.items()}


def prepare(
    job: NodeJob,
    node_name: str,
    workflow: OpenWorkflow,
    *,
    values: Mapping[str, Any],
    targets: Mapping[str, NodeTarget],
) -> int:
    """Render the input and make the parameters of the job, or refuse it; returns the size in characters."""
    target = targets.get(job.endpoint)
    if target is None:
        job.refuse(NodeReason.ENDPOINT_DELETED, f"The endpoint {job.endpoint!r} was deleted.")
        return 0
    if (name := variables.too_large(job.template, values)) is not None:
        message = f"The results of {name!r} have more than {MAX_INPUT_BYTES:,} bytes; read them by GET …/items."
        job.refuse(NodeReason.RESULTS_TOO_LARGE, message)
        return 0
    try:
        input_ = job.template.render({**values, **job.item})
    except TemplateError as error:
        job.refuse(NodeReason.INPUT_UNRESOLVABLE, error.details[0]["message"])
        return 0
    if is_deeper(input_, MAX_JSON_DEPTH - 1):
        job.refuse(NodeReason.INPUT_REFUSED, f"The input is nested deeper than {MAX_JSON_DEPTH - 1} levels.")
    elif faults := target.endpoint.faults(input_):
        message = f"The payload spec refuses the input: {faults[0]['pointer'] or '/'}: {faults[0]['message']}"
        job.refuse(NodeReason.INPUT_REFUSED, message)
    else:
        name = node_name if job.name in {None, node_name} else f"{node_name}/{job.name}"
        job.params = _params(job, f"{workflow.name}/{name}"[:MAX_JOB_NAME], workflow, input_, target)
        if len(job.params["input"].encode()) > MAX_INPUT_BYTES:
            job.refuse(NodeReason.INPUT_TOO_LARGE, f"The input has more than {MAX_INPUT_BYTES:,} bytes.")
    return len(job.params.get("input", ""))


def _params(
    job: NodeJob, name: str, workflow: OpenWorkflow, input_: dict[str, Any], target: NodeTarget
) -> dict[str, Any]:
    params = job_insertion.params_of_another(target.params, target.endpoint, input_, workflow.shards)
    params.update(name=name, idempotency_key=job.key.idempotency_key)
    given = job.definition
    params.update((field, given[field]) for field in _OWN if given.get(field) is not None)
    if params["delay_ms"] is not None:
        params["trigger_type"] = Trigger.DELAYED.value
    if given.get("labels"):
        params["labels"] = compact_json({**(workflow.labels or {}), **given["labels"]})
    return params


def create(connection: Connection, step: WorkflowStep, jobs: Sequence[NodeJob]) -> None:
    """Create the jobs that are not refused.

    A job that exists already is taken over. Raises EndpointChangedError if an endpoint changed in between.
    """
    wanted = {job.params["job_id"]: job for job in jobs if job.params}
    if not wanted:
        return
    params = job_insertion.params_of_several(job.params for job in wanted.values())
    for row in run_in(connection, job_insertion.ONE_SHOTS, params):
        job = wanted.pop(row.job_id)
        job.job_id, job.execution_id = row.job_id, job.params["execution_id"]
        step.running += 1
        step.started += 1
        if row.execution_status == ExecutionStatus.QUEUED:
            step.queues[row.execution_queue] += 1
    if wanted:
        _find(connection, step, [*wanted.values()])


def _find(connection: Connection, step: WorkflowStep, jobs: Sequence[NodeJob]) -> None:
    by_key = {job.key.idempotency_key: job for job in jobs}
    params = {"endpoints": [job.endpoint for job in jobs], "keys": [*by_key]}
    found = connection.execute(FIND_BY_KEY, params).all()
    if len(found) < len(jobs):
        raise EndpointChangedError
    for row in found:
        job = by_key[row.idempotency_key]
        job.job_id, job.execution_id = row.job_id, row.execution_id
        step.running += 1
