"""Nodes of compiled templates. Pure.

Rendering is one pass: the value of a placeholder is never scanned for placeholders.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from app.catalog.templates import urls
from app.kernel.errors import Detail, TemplateError
from app.kernel.formats import compact_json


class Placeholder(NamedTuple):
    """One `{{namespace.path}}` and the JSON pointer of its field."""

    namespace: str
    path: tuple[str, ...]
    pointer: str

    def __str__(self) -> str:
        return "{{" + ".".join((self.namespace, *self.path)) + "}}"

    def error(self, reason: str) -> TemplateError:
        """Return an error for this placeholder, without its value."""
        return template_error([Detail(pointer=self.pointer, message=f"{self} {reason}")])


def template_error(faults: Sequence[Detail]) -> TemplateError:
    return TemplateError(f"A template is not valid. {faults[0]['pointer']}: {faults[0]['message']}", faults)


MAX_COUNT = 2**53 - 1
STAND_IN = "te0stands0in0for0a0secret"  # possible in a host

_INDEX = re.compile("[0-9]{1,9}")

Roots = Mapping[str, Any]
Part = str | Placeholder
Escape = Callable[[str], str]


def resolve(placeholder: Placeholder, roots: Roots) -> Any:
    """Return the value of the placeholder; raises TemplateError when there is none."""
    value = roots[placeholder.namespace]
    if placeholder.namespace == "secret":
        name = ".".join(placeholder.path)
        if name not in value:
            raise placeholder.error("cannot be resolved: there is no such secret.")
        return value[name]
    for step in placeholder.path:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise placeholder.error("cannot be resolved: there is no such value.")
    return value


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1 that every reader of JSON represents exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT


def as_text(value: Any) -> str:
    """Return a value as text inside a longer string: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else compact_json(value)


class Node(Protocol):
    """A compiled piece of a spec."""

    def render(self, roots: Roots) -> Any:
        """Return the value with its placeholders resolved; callers never modify it."""


# A dataclass, because mypy takes `case Constant(str())` after the cases of NamedTuples for unreachable.
@dataclass(frozen=True, slots=True)
class Constant:
    """A piece without placeholders."""

    value: Any

    def render(self, _roots: Roots) -> Any:
        return self.value


class SolePlaceholder(NamedTuple):
    """A string that is exactly one placeholder, in a field that takes any JSON."""

    placeholder: Placeholder

    def render(self, roots: Roots) -> Any:
        return resolve(self.placeholder, roots)


class CountNode(NamedTuple):
    """A placeholder that must be a whole number."""

    placeholder: Placeholder

    def render(self, roots: Roots) -> Any:
        value = resolve(self.placeholder, roots)
        if not is_count(value):
            raise self.placeholder.error(f"must be a whole number from 1 to {MAX_COUNT}.")
        return value


class Text(NamedTuple):
    """A string with placeholders in it."""

    parts: tuple[Part, ...]
    one_line: bool

    def render(self, roots: Roots) -> Any:
        """Join the parts; a control character in a one-line field is refused, not removed."""
        text = ""
        for part in self.parts:
            piece = part if isinstance(part, str) else as_text(resolve(part, roots))
            if isinstance(part, Placeholder) and self.one_line and urls.CONTROL.search(piece):
                raise part.error("has a line break or another control character, which this field does not allow.")
            text += piece
        return text


class UrlNode(NamedTuple):
    """A URL with placeholders; `pieces` pairs each part with its encoding."""

    pieces: tuple[tuple[Part, Escape | None], ...]
    pointer: str
    schemes: frozenset[str]
    finish: Callable[[str, frozenset[str], str | None], str] = urls.finish

    def render(self, roots: Roots) -> Any:
        """Join the parts, the input percent-encoded, and check the result."""
        url, prefix = "", None
        for part, escape in self.pieces:
            if isinstance(part, Placeholder):
                if part.namespace == "input" and prefix is None:
                    prefix = url
                text = as_text(resolve(part, roots))
                url += escape(text) if escape else text
            else:
                url += part
        try:
            return self.finish(url, self.schemes, prefix)
        except ValueError as error:
            raise template_error([Detail(pointer=self.pointer, message=str(error))]) from None


class Object(NamedTuple):
    """A JSON object."""

    items: tuple[tuple[str, Node], ...]

    def render(self, roots: Roots) -> Any:
        # Most fields are constants; a call for each would cost more than the rest.
        return {key: node.value if isinstance(node, Constant) else node.render(roots) for key, node in self.items}


class Array(NamedTuple):
    """A JSON array."""

    items: tuple[Node, ...]

    def render(self, roots: Roots) -> Any:
        return [node.render(roots) for node in self.items]


@dataclass(frozen=True, slots=True)
class SpecTemplate:
    """A compiled endpoint spec."""

    root: Object = field(repr=False)
    placeholders: tuple[Placeholder, ...]
    secret_refs: frozenset[str]

    def any_input(self) -> dict[str, Any]:
        """Return a made-up input with a value for every input placeholder."""
        input_: dict[str, Any] = {}
        # Longest paths first, so that no number takes the place of an object.
        for *above, last in sorted(
            (p.path for p in self.placeholders if p.namespace == "input" and p.path), key=len, reverse=True
        ):
            at = input_
            for name in above:
                at = at.setdefault(name, {})
            at.setdefault(last, 1)
        return input_

    def render(self, input_: Any, config: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        """Resolve every template; raises TemplateError naming the variable and the field, never a value."""
        rendered: dict[str, Any] = self.root.render({"input": input_, "config": config, "secret": secrets})
        return rendered

    def masked(self, input_: Any, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Resolve every template with STAND_IN for each secret; None if the result is not a valid spec."""
        try:
            return self.render(input_, config, dict.fromkeys(self.secret_refs, STAND_IN))
        except TemplateError:
            return None
