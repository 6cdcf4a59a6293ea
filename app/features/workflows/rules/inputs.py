"""Templates in the inputs and lists of nodes: `{{workflow.input.day}}`, `{{parents.extract.output.body}}`, `{{item}}`.

Rendering is one pass. A string that is exactly one placeholder keeps the JSON type of its value.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.catalog.templates.compilation import Compiler, FieldKind, FieldRule
from app.catalog.templates.nodes import Constant, Node, Placeholder, template_error
from app.kernel.errors import Detail

_RULE = FieldRule(FieldKind.VALUE, frozenset())
_VARIABLE = re.compile(r"([A-Za-z_]+)((?:\.[^\s.{}]+)*)")


class Reference(NamedTuple):
    """A variable, such as `("workflow", "input", "day")`, and the JSON pointer of its place."""

    path: tuple[str, ...]
    pointer: str


class InputTemplate(NamedTuple):
    """A compiled value of a node's definition, and its references to variables."""

    root: Node
    references: Sequence[Reference]

    def render(self, roots: Mapping[str, Any]) -> Any:
        """Resolve every template; raises TemplateError with the variable and the place, never with a value.

        Args:
            roots: Values by the first step of their paths: `workflow`, `parents`, `item`, `item_number`.
        """
        return self.root.render(roots)


def compiled(value: Any, pointer: str = "") -> InputTemplate:
    """Compile a value at a pointer; raises TemplateError with all faults of its syntax.

    Names of variables are not checked: `template_checks` checks them when a workflow is created.
    """
    template, faults = _compile(value, pointer)
    if faults:
        raise template_error(faults)
    return template


def references(value: Any, pointer: str = "") -> tuple[Sequence[Reference], Sequence[Detail]]:
    """Return the references in a value at a pointer, and all faults of its syntax."""
    template, faults = _compile(value, pointer)
    return template.references, faults


def _compile(value: Any, pointer: str) -> tuple[InputTemplate, Sequence[Detail]]:
    shown = repr(value)
    if "{{" not in shown and "}}" not in shown:
        return InputTemplate(Constant(value), ()), ()  # a tenth of the time
    compiler = _InputCompiler()
    root = compiler.node(value, pointer, _RULE, 0)
    found = [Reference((each.namespace, *each.path), each.pointer) for each in compiler.placeholders]
    return InputTemplate(root, found), compiler.faults


class _InputCompiler(Compiler):
    """Compiler of a value whose variables may be single words."""

    example = "{{workflow.input.NAME}}"

    def placeholder(self, inside: str, pointer: str, rule: FieldRule) -> Placeholder | None:  # noqa: ARG002
        match = _VARIABLE.fullmatch(inside.strip())
        if match is None:
            self.fault(pointer, "{{" + inside[:80] + "}} is not a variable.")
            return None
        found = Placeholder(match[1], tuple(match[2].split(".")[1:]), pointer)
        self.placeholders.append(found)
        return found
