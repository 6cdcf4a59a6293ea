"""Reach of a change in words: the things that a changed definition, a pause or a closed breaker affects. Pure."""

from collections.abc import Mapping, Sequence

from app.catalog.uses import Use, UseKind
from app.features.breakers.store import MAX_ENDPOINTS
from app.features.limits.store import MAX_COUNTED
from app.features.queues.store import MAX_DUE, Queue
from app.kernel.formats import numbered
from app.queue.jobs.open_executions import OpenExecutions

_NOUNS = {
    UseKind.ENDPOINT: "endpoint",
    UseKind.CALLBACK: "callback",
    UseKind.WORKFLOW_DEFINITION: "workflow definition",
    UseKind.CHANNEL: "notification rule",
    UseKind.RULE: "notification rule",
    UseKind.SCHEDULE: "schedule",
    UseKind.WORKFLOW_NODE: "node of a running workflow",
    UseKind.WAITING_EXECUTION: "waiting execution",
    UseKind.RUNNING_EXECUTION: "running execution",
}
_PLURALS = {UseKind.WORKFLOW_NODE: "nodes of running workflows"}
_HEADINGS = {
    UseKind.ENDPOINT: "Endpoints",
    UseKind.CALLBACK: "Endpoints that call back",
    UseKind.WORKFLOW_DEFINITION: "Workflow definitions",
    UseKind.CHANNEL: "Rules that send through it",
    UseKind.RULE: "Rules that watch it",
    UseKind.SCHEDULE: "Schedules",
    UseKind.WORKFLOW_NODE: "Nodes that may still start",
    UseKind.WAITING_EXECUTION: "Waiting executions",
    UseKind.RUNNING_EXECUTION: "Running executions",
}


def reach(uses: Sequence[Use]) -> list[str]:
    """Return the counts with their nouns, such as `3 endpoints`; uses without a count are left out."""
    return [_counted(use) for use in uses if use.count or not use.is_complete]


def reach_of_queue(queue: Queue) -> list[str]:
    """Return the immediate effects of the pause of a queue."""
    workers = [numbered(queue.workers, "worker")] if queue.workers else []
    return [*_some(queue.due, "due execution", is_complete=queue.due < MAX_DUE), *workers]


def reach_of_breaker(endpoints: Sequence[str], waiting: Mapping[str, int]) -> list[str]:
    """Return the effects of closing a breaker, by the waiting executions of its endpoints up to MAX_COUNTED each.

    A list of MAX_ENDPOINTS may have been cut. An endpoint that `waiting` lacks was not counted.
    """
    is_complete = all(waiting.get(name, MAX_COUNTED) < MAX_COUNTED for name in endpoints)
    total = sum(waiting.get(name, 0) for name in endpoints)
    led = _some(len(endpoints), "endpoint", is_complete=len(endpoints) < MAX_ENDPOINTS)
    counted = sum(name in waiting for name in endpoints)
    part = f" (counted for {counted} of the endpoints)" if counted < len(endpoints) else ""
    return [*led, *(f"{each}{part}" for each in _some(total, "waiting execution", is_complete=is_complete))]


def reach_of_workflow(open_nodes: int, running: int) -> list[str]:
    """Return the effects of the pause of a workflow: nodes that are not through, and executions that continue."""
    return [*_some(open_nodes, "open node"), *_some(running, "running execution")]


def reach_of_job(found: OpenExecutions, further_runs: int = 0) -> list[str]:
    """Return the effects of the pause or the cancellation of a job: further runs of a day, and waiting executions."""
    runs = [f"{each} of the day" for each in _some(further_runs, "further run")]
    return [*runs, *_some(found.waiting, "waiting execution", is_complete=found.is_complete)]


def heading(kind: UseKind) -> str:
    """Return the heading of the uses of a kind."""
    return _HEADINGS[kind]


def _some(count: int, noun: str, *, is_complete: bool = True) -> list[str]:
    return [numbered(count, noun, or_more=not is_complete)] if count or not is_complete else []


def _counted(use: Use) -> str:
    plural = _PLURALS.get(use.kind)
    if plural is not None and use.count != 1:
        return f"{use.count:,}{'' if use.is_complete else '+'} {plural}"
    return numbered(use.count, _NOUNS[use.kind], or_more=not use.is_complete)
