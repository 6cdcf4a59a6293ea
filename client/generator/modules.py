"""Text of the generated modules: models, errors, defaults, and blocking and asynchronous operations."""

import subprocess
import sys
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from client.generator.codes import base_of, class_of, codes_of, statuses_of
from client.generator.docstrings import (
    WIDTH,
    docstring,
    example_of,
    group_docstring,
    service_docstring,
    used_by,
)
from client.generator.methods import method_of
from client.generator.operations import Operation, operations_of
from client.generator.types import reachable, references, type_of

_HEAD = '"""{title}\n\nWritten by `make client` from the OpenAPI document; do not edit.\n{more}"""\n'
_ERRORS_EXAMPLE = """
Example:
    from task_executor_client import ApiError, errors

    try:
        te.jobs.get(job_id)
    except errors.JobNotFoundError:
        print("no such job")
    except ApiError as error:
        print(error.code, error.message, error.request_id)
"""
_MODELS_NOTE = """
Values are plain dictionaries at run time. A NotRequired field of a request may be left out, and of an answer may be
missing. Times of answers are ISO 8601 texts; requests also take `datetime` with a time zone, and `timedelta`, where the
type says so.

Example:
    job: models.NewJob = {"endpoint": "send-mail", "trigger": "IMMEDIATE", "input": {"user_id": "u_1"}}
    created: models.CreatedJob = te.jobs.create(**job)
"""


def modules_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the formatted text of each generated file."""
    found = operations_of(document)
    texts = {
        "models.py": _models(document, found),
        "errors.py": _errors(document),
        "defaults.py": _defaults(document),
        "operations.py": _operations(found, codes_of(document), is_async=False),
        "async_operations.py": _operations(found, codes_of(document), is_async=True),
    }
    return {name: _formatted(text) for name, text in texts.items()}


def _formatted(text: str, width: int = 120) -> str:
    for command in (["check", "--fix-only", "--select", "F401,I"], ["format"]):
        text = subprocess.run(  # noqa: S603 - the linter of this environment
            [sys.executable, "-m", "ruff", *command, "--quiet", "--line-length", str(width), "--isolated", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def _models(document: Mapping[str, Any], operations: list[Operation]) -> str:
    schemas = document["components"]["schemas"]
    # Schemas of requests accept wider types, unless the schema also occurs in answers.
    read = reachable((name for each in operations for name in references(each.answer)), schemas)
    sent = reachable((each.body for each in operations if each.body is not None), schemas)
    parts = [
        _HEAD.format(title="Bodies of requests and answers as TypedDicts.", more=_MODELS_NOTE),
        "from __future__ import annotations",
        "from collections.abc import Mapping, Sequence",
        "from datetime import datetime, timedelta",
        "from typing import Any, Literal, NotRequired, TypedDict",
        "",
    ]
    uses = _uses(schemas, operations)
    parts += [_model(name, schemas[name], uses[name], sent=name not in read) for name in schemas if name in read | sent]
    return "\n".join(parts)


def _uses(schemas: Mapping[str, Any], operations: list[Operation]) -> dict[str, dict[str, list[str]]]:
    """Return for each schema the operations and schemas that use it."""
    uses: dict[str, dict[str, list[str]]] = {name: {"body of": [], "answer of": [], "part of": []} for name in schemas}
    for each in operations:
        operation = f"{each.group}.{each.name}"
        if each.body is not None:
            uses[each.body]["body of"].append(operation)
        for name in references(each.answer):
            uses[name]["answer of"].append(operation)
    for name, schema in schemas.items():
        for part in dict.fromkeys(references(schema)):
            uses[part]["part of"].append(name)
    return uses


def _model(name: str, schema: Mapping[str, Any], uses: Mapping[str, list[str]], *, sent: bool) -> str:
    required = set(schema.get("required", ()))
    fields: dict[str, tuple[str, str]] = {}
    for field, described in schema.get("properties", {}).items():
        type_ = type_of(described, sent=sent)
        fields[field] = (
            type_ if field in required else f"NotRequired[{type_}]",
            described.get("description", ""),
        )
    if not all(field.isidentifier() and field not in {"from", "in"} for field in fields):
        listed = ", ".join(f'"{field}": "{type_.replace(chr(34), chr(39))}"' for field, (type_, _) in fields.items())
        return f'{name} = TypedDict("{name}", {{{listed}}})\n{docstring(used_by(name, uses), 0)}\n'
    lines = [f"class {name}(TypedDict):", docstring(used_by(name, uses), 4), ""]
    for field, (type_, meaning) in fields.items():
        lines.append(f"    {field}: {type_}")
        if meaning:
            lines.append(docstring(meaning[0].upper() + meaning[1:], 4))
    return "\n".join([*lines, "    pass" if not fields else "", ""])


def _errors(document: Mapping[str, Any]) -> str:
    codes, statuses = codes_of(document), statuses_of(document)
    ordered = sorted(codes, key=lambda code: (base_of(code) != "ApiError", code))
    lines = [
        _HEAD.format(title="Error classes, one for each documented code.", more=_ERRORS_EXAMPLE),
        "from .failures import ApiError",
        "",
    ]
    for code in ordered:
        base = "ApiError" if code == "NOT_FOUND" else base_of(code)
        lines += [f"class {class_of(code)}({base}):", _error_docstring(code, codes[code], statuses[code]), ""]
    lines.append("BY_CODE: dict[str, type[ApiError]] = {")
    lines += [f'    "{code}": {class_of(code)},' for code in sorted(codes)]
    return "\n".join([*lines, "}", ""])


def _error_docstring(code: str, meaning: str, status: int) -> str:
    return docstring(f"{meaning}\n\nCode `{code}`, HTTP status {status}.", 4)


def _defaults(document: Mapping[str, Any]) -> str:
    found: dict[str, dict[str, Any]] = {}
    for name, schema in document["components"]["schemas"].items():
        fields = schema.get("properties", {}).items()
        if values := {field: described["default"] for field, described in fields if "default" in described}:
            found[name] = values
    lines = [
        _HEAD.format(title="Defaults of the service for missing fields of a body.", more=""),
        "from typing import Any",
        "",
    ]
    return "\n".join([*lines, f"DEFAULTS: dict[str, dict[str, Any]] = {found!r}", ""])


def _operations(operations: list[Operation], meanings: Mapping[str, str], *, is_async: bool) -> str:
    prefix, twin = ("Async", "asynchronous") if is_async else ("", "synchronous")
    by_group = attrgetter("group")
    groups = {name: list(each) for name, each in groupby(sorted(operations, key=by_group), by_group)}
    lines = [
        _HEAD.format(title=f"Operations of the service, {twin}, with a class for each group.", more=""),
        "from collections.abc import Sequence",
        "from datetime import datetime, timedelta",
        "from typing import Any, Literal, Unpack",
        "",
        "from . import models",
        f"from .groups import {prefix}Group",
        "from .call import Call",
        f"from .pages import {prefix}Pages",
        "",
    ]
    examples = _examples(groups, is_async=is_async)
    for name, members in groups.items():
        lines += [f"class {prefix}{_camel(name)}({prefix}Group):", group_docstring(name, examples[name]), ""]
        lines += [method_of(each, prefix, meanings, is_async=is_async) for each in members]
    lines += [f"class {prefix}Service({prefix}Group):", service_docstring(meanings), ""]
    for name in groups:
        lines += ["    @property", f"    def {name}(self) -> {prefix}{_camel(name)}:"]
        lines += [f'        """Operations on `{name}`."""', f"        return {prefix}{_camel(name)}(self._sender)", ""]
    return "\n".join(lines)


def _examples(groups: Mapping[str, list[Operation]], *, is_async: bool) -> dict[str, str]:
    """Return a call of one operation of each group, preferably with a body."""
    shown = [next((each for each in members if each.body is not None), members[0]) for members in groups.values()]
    calls = [example_of(operation) for operation in shown]
    if is_async:
        calls = [call.replace("= te.", "= await te.", 1) for call in calls]
    return dict(
        zip(groups, (text.strip() for text in _formatted("\n#\n".join(calls), WIDTH - 8).split("\n#\n")), strict=True)
    )


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
