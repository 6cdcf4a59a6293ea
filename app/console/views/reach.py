"""Reach of a change in words: the things that a changed definition affects. Pure."""

from collections.abc import Sequence

from app.catalog.uses import Use, UseKind
from app.kernel.formats import numbered

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


def heading(kind: UseKind) -> str:
    """Return the heading of the uses of a kind."""
    return _HEADINGS[kind]


def _counted(use: Use) -> str:
    plural = _PLURALS.get(use.kind)
    if plural is not None and use.count != 1:
        return f"{use.count:,}{'' if use.is_complete else '+'} {plural}"
    return numbered(use.count, _NOUNS[use.kind], or_more=not use.is_complete)
