"""Builder of the nodes of a workflow: `job`, `group`, `for_each` and `gate`, joined by `chain`, `parallel` and `chord`.

Each function returns Steps. `Steps.nodes` is the `nodes` of `te.workflows.create`; the service checks them.

Example:
    from task_executor_client.workflows import chain, for_each, job

    steps = chain(
        job("extract", endpoint="extract"),
        for_each("score", "{{parents.extract.output.body.rows}}", endpoint="score", input={"row": "{{item}}"}),
        job("publish", endpoint="publish", input={"scores": "{{parents.score.results}}"}),
    )
    te.workflows.create(name="nightly-report", nodes=steps.nodes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from . import models

__all__ = ["Steps", "chain", "chord", "for_each", "gate", "group", "job", "member", "parallel"]


@dataclass(frozen=True, slots=True)
class Steps:
    """Part of a workflow.

    Attributes:
        nodes: Nodes as the body of `workflows.create` has them.
        first: Names of the nodes that start the part.
        last: Names of the nodes that end the part.
    """

    nodes: list[models.NewNode]
    first: tuple[str, ...]
    last: tuple[str, ...]


def job(name: str, *, endpoint: str, after: Sequence[str] = (), **fields: Any) -> Steps:
    """Return a node with one job.

    Args:
        name: Name of the node.
        endpoint: Endpoint of the job.
        after: Names of further nodes that it waits for.
        **fields: Other fields of `models.NewNode`, such as `input`, `delay`, `run_if` and `on_failure`.
    """
    return _node(name, after, {"endpoint": endpoint, **fields})


def for_each(
    name: str, items: str | Sequence[Any], *, endpoint: str, after: Sequence[str] = (), **fields: Any
) -> Steps:
    """Return a node with a job for each item.

    Args:
        name: Name of the node.
        items: Items, or a template of a list, such as `{{parents.extract.output.body.rows}}`.
        endpoint: Endpoint of the jobs; `{{item}}` in `input` is the item of each.
        after: Names of further nodes that it waits for.
        **fields: Other fields of `models.NewNode`, such as `input`, `max_parallel` and `tolerate`.
    """
    listed = items if isinstance(items, str) else list(items)
    return _node(name, after, {"endpoint": endpoint, "for_each": listed, **fields})


def member(name: str, *, endpoint: str, **fields: Any) -> models.NewMember:
    """Return a member of a group.

    Args:
        name: Name of the member, unique in its group.
        endpoint: Endpoint of its job.
        **fields: Other fields of `models.NewMember`, such as `input`.
    """
    return cast("models.NewMember", {"name": name, "endpoint": endpoint, **fields})


def group(name: str, *members: models.NewMember, after: Sequence[str] = (), **fields: Any) -> Steps:
    """Return a node whose members run in parallel; it ends when all members have ended.

    Args:
        name: Name of the node; `{{parents.NAME.results}}` has the results in the order of the members.
        *members: Members, from `member`.
        after: Names of further nodes that it waits for.
        **fields: Other fields of `models.NewNode`, such as `max_parallel` and `tolerate`.
    """
    return _node(name, after, {"group": list(members), **fields})


def gate(name: str, *, after: Sequence[str] = (), **fields: Any) -> Steps:
    """Return a node without a job, which ends as soon as it starts.

    Between m nodes and n nodes, a gate needs m + n edges instead of m * n.

    Args:
        name: Name of the node.
        after: Names of further nodes that it waits for.
        **fields: Other fields of `models.NewNode`: `run_if` and `on_failure`.
    """
    return _node(name, after, fields)


def chain(*steps: Steps) -> Steps:
    """Return steps of which each waits for the previous step."""
    nodes, last = list[Any](), tuple[str, ...]()
    for step in steps:
        nodes += [_after(node, last) if node["name"] in step.first else node for node in step.nodes]
        last = step.last or last
    first = next((step.first for step in steps if step.first), ())
    return Steps(nodes, first, last)


def parallel(*steps: Steps) -> Steps:
    """Return steps that do not wait for each other."""
    return Steps(
        [node for step in steps for node in step.nodes],
        tuple(name for step in steps for name in step.first),
        tuple(name for step in steps for name in step.last),
    )


def chord(header: Steps, body: Steps) -> Steps:
    """Return a body that waits for all steps of its header: `chain` of both, by the name that Celery gives it."""
    return chain(header, body)


def _node(name: str, after: Sequence[str], fields: Mapping[str, Any]) -> Steps:
    node = {"name": name, **({"after": list(after)} if after else {}), **fields}
    return Steps([cast("models.NewNode", node)], (name,), (name,))


def _after(node: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {**node, "after": [*dict.fromkeys([*node.get("after", ()), *names])]} if names else dict(node)
