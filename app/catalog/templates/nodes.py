"""Nodes of compiled templates. Pure.

Rendering is one pass: the value of a placeholder is never scanned for placeholders.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.catalog.templates import urls
from app.kernel.errors import Detail, TemplateError
from app.kernel.formats import compact_json


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{namespace.path}}` and the JSON pointer of its field."""

    namespace: str
    path: tuple[str, ...]
    pointer: str

    def __str__(self) -> str:
        return "{{" + ".".join((self.namespace, *self.path)) + "}}"

    def error(self, reason: str) -> TemplateError:
        """Return an error for this placeholder, without its value."""
        return template_error(self.pointer, f"{self} {reason}")


def template_error(pointer: str, message: str) -> TemplateError:
    return TemplateError(f"{message} (at {pointer})", [Detail(pointer=pointer, message=message)])


MAX_COUNT = 2**53 - 1

Roots = Mapping[str, Any]
Part = str | Placeholder
Escape = Callable[[str], str]


def resolve(placeholder: Placeholder, roots: Roots) -> Any:
    """Return the value of the placeholder; raises TemplateError when there is none."""
    value = roots[placeholder.namespace]
    if placeholder.namespace == "secret":
        name = ".".join(placeholder.path)
        if name not in value:
            raise placeholder.error("cannot be resolved: there is no such secret")
        return value[name]
    for step in placeholder.path:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise placeholder.error(f"cannot be resolved: the {placeholder.namespace} has no such value")
    return value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1 that every reader of JSON represents exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT


def as_text(value: Any) -> str:
    """Return a value as text inside a longer string: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else compact_json(value)


class Node(Protocol):
    """A compiled piece of a spec."""

    def render(self, roots: Roots) -> Any:
        """Return the value with its placeholders resolved."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A piece without placeholders."""

    value: Any

    def render(self, _roots: Roots) -> Any:
        """Return the value itself, uncopied: rendered specs are never modified."""
        return self.value


@dataclass(frozen=True, slots=True)
class SolePlaceholder:
    """A string that is exactly one placeholder, in a field that takes any JSON."""

    placeholder: Placeholder

    def render(self, roots: Roots) -> Any:
        """Keep the JSON type."""
        return resolve(self.placeholder, roots)


@dataclass(frozen=True, slots=True)
class CountNode:
    """A placeholder that must be a whole number."""

    placeholder: Placeholder

    def render(self, roots: Roots) -> Any:
        """Return the number."""
        value = resolve(self.placeholder, roots)
        if not is_count(value):
            raise self.placeholder.error(f"must be a whole number from 1 to {MAX_COUNT}")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A string with placeholders in it."""

    parts: tuple[Part, ...]
    one_line: bool

    def render(self, roots: Roots) -> Any:
        """Join the parts; a control character in a one-line field is refused, not removed."""
        return "".join(part if isinstance(part, str) else self._piece(part, roots) for part in self.parts)

    def _piece(self, placeholder: Placeholder, roots: Roots) -> str:
        text = as_text(resolve(placeholder, roots))
        if self.one_line and urls.CONTROL.search(text):
            raise placeholder.error("has a line break or another control character, which this field does not allow")
        return text


@dataclass(frozen=True, slots=True)
class UrlNode:
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
            raise template_error(self.pointer, str(error)) from None


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object."""

    items: tuple[tuple[str, Node], ...]

    def render(self, roots: Roots) -> Any:
        """Render the values; keys are never templates."""
        return {key: node.render(roots) for key, node in self.items}


@dataclass(frozen=True, slots=True)
class Array:
    """A JSON array."""

    items: tuple[Node, ...]

    def render(self, roots: Roots) -> Any:
        """Render the items."""
        return [node.render(roots) for node in self.items]
