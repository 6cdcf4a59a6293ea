"""Docstrings of the generated modules, in the style of Google: Args, Returns, Raises, Example."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from client.generator.codes import class_of
from client.generator.operations import Operation, Parameter
from client.generator.types import type_of

WIDTH = 114  # of a line with its indent; leaves room for quotes
_GENERAL = (
    "INVALID_REQUEST",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "PAYLOAD_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
    "SERVICE_UNAVAILABLE",
    "GATEWAY_TIMEOUT",
)
"""Codes of almost all operations, which the docstring of the service lists once."""

_MEANINGS = {
    "limit": "Items per page",
    "count": "Number of items",
    "created_after": "Only items created at this time or later; None for no bound",
    "created_before": "Only items created before this time; None for no bound",
    "failed_after": "Only items that failed at this time or later; None for no bound",
    "failed_before": "Only items that failed before this time; None for no bound",
}
"""Meanings of parameters without a description in the document."""
_NONE = {
    "cursor": "None for the first page",
    "idempotency_key": "None for a random key, which is the same on each try",
    "if_match": "None for a change in any state",
    "if_none_match": "None for an answer in any state",
    "prefer": "None for an immediate answer",
}
"""Meanings of None for parameters that have no default in the document."""


@dataclass(frozen=True, slots=True)
class Section:
    """Section of a docstring: lines of entries, or of code if the title is Example."""

    title: str
    entries: tuple[str, ...]


def docstring(text: str, indent: int, sections: Iterable[Section] = ()) -> str:
    """Return a docstring with its quotes and indent; paragraphs and sections are wrapped to WIDTH."""
    lines = _wrapped(_sentence(text), WIDTH - indent)
    for section in sections:
        lines += ["", f"{section.title}:"]
        if section.title == "Example":
            lines += [f"    {line}" if line else "" for each in section.entries for line in each.splitlines()]
        else:
            hanging = "        " if section.title in {"Args", "Raises", "Attributes"} else "    "
            for entry in section.entries:
                lines += _wrapped(_sentence(entry), WIDTH - indent, "    ", hanging)
    lines = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines]
    pad = " " * indent
    if len(lines) == 1:
        return f'{pad}"""{lines[0]}"""'
    return "\n".join([f'{pad}"""{lines[0]}', *(f"{pad}{line}".rstrip() for line in lines[1:]), f'{pad}"""'])


def operation_docstring(operation: Operation, meanings: Mapping[str, str], service: str) -> str:
    """Return the docstring of a method.

    Args:
        operation: Operation that the method calls.
        meanings: Meaning of each error code.
        service: Name of the class whose docstring has the errors of each operation.
    """
    return docstring(
        # Paragraphs stay, single line breaks become spaces.
        re.sub(r"(?<!\n)\n(?!\n|- )", " ", operation.doc),
        8,
        (
            Section("Args", tuple(_args(operation))),
            *([Section("Returns", (_returns(operation),))] if operation.answer is not None else []),
            Section("Raises", tuple(_raises(operation, meanings, service))),
        ),
    )


def service_docstring(meanings: Mapping[str, str]) -> str:
    """Return the docstring of the class with all groups, which holds for each operation."""
    raised = [
        *(f"errors.{class_of(code)}: {meanings[code]}" for code in _GENERAL if code in meanings),
        "ApiError: A code that this version of the client does not name.",
        "ConnectionFailedError: The last try received no answer; see `may_have_been_done`.",
        "UnexpectedAnswerError: The answer does not come from Task Executor, or is larger than 64 MiB.",
        "ValueError: A name or id is empty, a header is not printable ASCII, or a datetime has no time zone.",
        "TypeError: The body has a value that is not JSON.",
        "RuntimeError: The client is closed.",
    ]
    text = (
        "All groups of operations, and rules of each operation.\n\n"
        "None leaves a parameter out of the request. Times are ISO 8601 texts, or `datetime` with a time zone."
        " `timeout` is in seconds and limits all tries of the call together."
    )
    return docstring(text, 4, [Section("Raises", tuple(raised))])


def group_docstring(name: str, example: str) -> str:
    """Return the docstring of the class of a group."""
    return docstring(f"Operations on `{name}`; `te` in the example is a client.", 4, [Section("Example", (example,))])


def example_of(operation: Operation) -> str:
    """Return a statement that calls an operation, not formatted."""
    arguments = list(operation.path_names)
    if operation.body is not None:
        given = operation.example or {}
        spread = [f"{name}={value!r}" for name, value in given.items()]
        arguments += spread if operation.spread else [repr(dict(given))]
    call = f"te.{operation.group}.{operation.name}({', '.join(arguments)})"
    return f"answer = {call}" if operation.item is None else f"first = {call}.first()"


def _args(operation: Operation) -> Iterable[str]:
    for name in operation.path_names:
        yield f"{name}: {_path_meaning(operation.path, name)}"
    parameters = [*operation.query, *operation.headers]
    if operation.body is not None and not operation.spread:
        yield f"body: {_body(operation)}"
    for each in sorted(parameters, key=lambda parameter: not parameter.required):
        yield f"{each.name}: {_meaning(each)}"
    yield "timeout: Seconds for all tries; None for the client's `Retries.timeout`"
    if operation.body is not None and operation.spread:
        yield f"**fields: {_body(operation)}"


def _path_meaning(path: str, name: str) -> str:
    noun = path.split(f"/{{{name}}}", maxsplit=1)[0].rsplit("/", 1)[1].replace("-", " ").removesuffix("s")
    kind = "Id" if name.endswith("_id") else "Name" if name in {"name", noun} else name.capitalize()
    return f"{kind} of the {noun}"


def _body(operation: Operation) -> str:
    required = [f"`{name}`" for name in operation.required]
    listed = " and ".join([", ".join(required[:-1]), required[-1]] if len(required) > 1 else required)
    needed = f"; {listed} {'is' if len(required) == 1 else 'are'} required" if required else "; all are optional"
    return f"Fields of `models.{operation.body}`{needed}"


def _meaning(parameter: Parameter) -> str:
    schema = parameter.schema
    words = parameter.name.rstrip("_").replace("_", " ")
    given = parameter.meaning or _MEANINGS.get(parameter.name)
    text = given or f"Only items with this {words}"
    text = text[0].upper() + text[1:].rstrip(".")
    if "minimum" in schema and "maximum" in schema:
        text += f", {schema['minimum']} to {schema['maximum']:,}"
    if "example" in schema and not given:
        text += f", such as `{schema['example']}`"
    if "default" in schema:
        return f"{text}; None for `{schema['default']}`"
    return "; ".join(
        [text, *([_NONE[parameter.name]] if parameter.name in _NONE else [] if given else ["None for all"])]
    )


def _returns(operation: Operation) -> str:
    if operation.item is not None:
        type_ = type_of(operation.item, sent=False, models="models.")
        return (
            f"Items of all pages as `{type_}`. Each page is requested when the iteration reaches it, so the iteration"
            " raises the errors"
        )
    if operation.is_text:
        return "The text of the answer"
    parts = [f"The answer as `{type_of(operation.answer or {}, sent=False, models='models.')}`"]
    if operation.has_etag:
        parts.append("`etag(answer)` is its version for `if_match`")
    if operation.may_replay:
        parts.append("`replayed(answer)` is True if an earlier request with the same key produced it")
    return "; ".join(parts)


def _raises(operation: Operation, meanings: Mapping[str, str], service: str) -> Iterable[str]:
    for code in operation.codes:
        if code not in _GENERAL:
            yield f"errors.{class_of(code)}: {meanings[code]}"
    if operation.is_conditional:
        yield "NotModifiedError: The state still matches `if_none_match`"
    prefix = "Other errors" if set(operation.codes) - set(_GENERAL) else "Errors"
    yield f"TaskExecutorError: {prefix} of each operation; see `{service}`"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _wrapped(text: str, width: int, first: str = "", hanging: str = "") -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n"):
        indent = f"{hanging}  " if paragraph.startswith("- ") else hanging
        lines += textwrap.wrap(
            paragraph, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
    return lines


def used_by(name: str, document_uses: Mapping[str, Any]) -> str:
    """Return a sentence about the uses of a schema, from lists by kind of use."""
    parts = [f"{kind} {_listed(uses)}" for kind, uses in document_uses.items() if uses]
    return f"{'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}" if parts else name


def _listed(uses: list[str]) -> str:
    shown = [f"`{each}`" for each in uses[:4]]
    return ", ".join(shown) + (f" and {len(uses) - 4} more" if len(uses) > 4 else "")
