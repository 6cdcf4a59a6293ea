"""Checks of the templates in a workflow, when it is created: each variable can have a value when its node starts. Pure.

Rendering is in app.features.workflows.rules.inputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from app.catalog.templates.nodes import Placeholder, resolve
from app.features.workflows.rules.inputs import Reference, references
from app.kernel.errors import Detail, TemplateError
from schema.states import KeepResponse

_COMPENSATE = "compensate/input"
_OF_JOB = frozenset({"status", "output", "error", "execution_id"})
_OF_ITEMS = frozenset({"status", "results", "count", "succeeded", "failed"})
_OF_GATE = frozenset({"status"})
_WITH_PARTS = frozenset({"output", "error", "results"})
_VARIABLES = (
    "Use {{workflow.input.NAME}}, {{workflow.id}}, {{parents.NODE.output.NAME}}, and with `for_each` {{item}} or "
    "{{item_number}}."
)


class TemplateChecks:
    """Checks of all templates of a workflow whose nodes are in `order`, each after its `parents`.

    Without an order, because of a cycle, each node may be an ancestor of each.
    `endpoints` has the live endpoints with their rules for bodies of answers, `input_` is the input of the workflow;
    None if each job of a definition has another.
    """

    def __init__(
        self,
        nodes: Sequence[Mapping[str, Any]],
        order: Sequence[str] | None,
        parents: Mapping[str, Sequence[str]],
        endpoints: Mapping[str, KeepResponse],
        input_: Mapping[str, Any] | None,
    ) -> None:
        self._nodes = nodes
        self._by_name = {node["name"]: node for node in reversed(nodes) if "name" in node}
        self._order, self._parents = order, parents
        self._endpoints, self._input = endpoints, input_

    def faults(self) -> Iterator[Detail]:
        """Yield the fault of each template that could not be rendered."""
        for index, node in enumerate(self._nodes):
            for place, value in places(node):
                yield from self._faults_of(node, f"/nodes/{index}/{place}", value, place)

    def _faults_of(self, node: Mapping[str, Any], pointer: str, value: Any, place: str) -> Iterator[Detail]:
        found, faults = references(value, pointer)
        yield from faults
        is_text = pointer.endswith("/for_each") and isinstance(value, str)
        if is_text and not faults and not _is_sole(value, found):
            yield Detail(pointer=pointer, message="Must be a list, or one template, such as {{workflow.input.rows}}.")
        for reference in found:
            message = self._fault(node, reference.path, place)
            if message is not None:
                shown = "{{" + ".".join(reference.path) + "}}"
                yield Detail(pointer=reference.pointer, message=f"{shown} {message}")

    def _fault(self, node: Mapping[str, Any], path: tuple[str, ...], place: str) -> str | None:
        undoes = place.endswith(_COMPENSATE)
        match path:
            case ("workflow", "id") | ("node", "input" | "output", *_) if undoes or path[0] != "node":
                return None
            case ("workflow", "input", *steps):
                if self._input is None or _has(self._input, steps):
                    return None
                return "has no value: the input of the workflow has no such field."
            case ("item", *_) | ("item_number",):
                return (
                    None
                    if place == "input" and "for_each" in node
                    else "is not allowed here: only in `input` of a node with `for_each`."
                )
            case ("parents", parent, field, *steps):
                return self._fault_of_parent(node, parent, field, steps)
        return f"is not a variable. {_VARIABLES}"

    def _fault_of_parent(self, node: Mapping[str, Any], name: str, field: str, steps: Sequence[str]) -> str | None:
        parent = self._by_name.get(name)
        if parent is None:
            return f"is not possible: there is no node {name!r}."
        if name not in self._parents.get(node.get("name", ""), ()) and not self._is_ancestor(name, node):
            return f"is not possible: {name!r} does not end before this node. Name it in `after`."
        kind, possible = _kind_of(parent)
        if field not in possible:
            return f"is not possible: {name!r} is {kind} and has {', '.join(sorted(possible))}."
        if steps and field not in _WITH_PARTS:
            return f"is not possible: `{field}` has no parts."
        keep = self._endpoints.get(parent.get("endpoint", ""), KeepResponse.ALWAYS)
        if field == "output" and steps[:1] == ["body"] and keep is not KeepResponse.ALWAYS:
            return (
                f"has no value: the endpoint {parent['endpoint']!r} keeps no body of a success "
                f"(`keep_response: {keep}`)."
            )
        return None

    def _is_ancestor(self, name: str, node: Mapping[str, Any]) -> bool:
        if self._order is None:
            return True
        number = self._numbers.get(name)
        return number is not None and bool(self._ancestors.get(node.get("name", ""), 0) >> number & 1)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self._order or ())}

    @cached_property
    def _ancestors(self) -> Mapping[str, int]:
        """Ancestors of each node as the bits of an integer: 12 MiB for 10,000 nodes; sets take a hundred times that."""
        found = dict[str, int]()
        for name in self._order or ():
            bits = 0
            for parent in self._parents[name]:
                bits |= found[parent] | 1 << self._numbers[parent]
            found[name] = bits
        return found


class OutputChecks(TemplateChecks):
    """Checks of the output of a workflow, which may contain the results of all nodes."""

    def faults_of(self, output: Any) -> Iterator[Detail]:
        return self._faults_of({}, "/output", output, "output")

    def _is_ancestor(self, name: str, node: Mapping[str, Any]) -> bool:  # noqa: ARG002
        return True


def _is_sole(text: str, found: Sequence[Reference]) -> bool:
    return len(found) == 1 and text.startswith("{{") and text.endswith("}}")


def places(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a node that may contain templates, with their places."""
    for name in ("input", "for_each"):
        if name in node:
            yield name, node[name]
    if "input" in node.get("compensate", {}):
        yield _COMPENSATE, node["compensate"]["input"]
    for number, member in enumerate(node.get("group", ())):
        if "input" in member:
            yield f"group/{number}/input", member["input"]
        if "input" in member.get("compensate", {}):
            yield f"group/{number}/{_COMPENSATE}", member["compensate"]["input"]


def _kind_of(node: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    if "group" in node or "for_each" in node:
        return "a node with several jobs", _OF_ITEMS
    return ("a node with one job", _OF_JOB) if "endpoint" in node else ("a gate", _OF_GATE)


def _has(input_: Mapping[str, Any], steps: Sequence[str]) -> bool:
    """Return whether the input of a workflow has a part."""
    try:
        resolve(Placeholder("input", tuple(steps), ""), {"input": input_})
    except TemplateError:
        return False
    return True
