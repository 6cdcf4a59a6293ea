"""Operations of an OpenAPI document as values."""

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
KEY = "Idempotency-Key"
_HEADERS = {KEY: "idempotency_key", "If-Match": "if_match", "If-None-Match": "if_none_match", "Prefer": "prefer"}
_OWN = {"timeout", "fields"}
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """Query parameter or header; `wire` is its name in HTTP, `name` its name in Python."""

    wire: str
    name: str
    schema: Mapping[str, Any]
    required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of the API.

    `answer` is the schema of the answer's body, None without a body; `is_text` marks a body that is not JSON. `item` is
    the schema of a page's items. `body` names the schema of the request's body; with `spread` its fields are keyword
    arguments, with `key_in_body` they include the idempotency key. `required` names the fields that the body must have,
    `example` is the first example of the body. `codes` are the documented error codes. With `is_conditional` the answer
    may be 304.
    """

    id: str
    group: str
    name: str
    method: str
    path: str
    path_names: tuple[str, ...]
    query: tuple[Parameter, ...]
    headers: tuple[Parameter, ...]
    body: str | None
    spread: bool
    key_in_body: bool
    takes_key: bool
    answer: Mapping[str, Any] | None
    is_text: bool
    item: Mapping[str, Any] | None
    doc: str
    required: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    codes: tuple[str, ...] = ()
    has_etag: bool = False
    may_replay: bool = False
    is_conditional: bool = False


def operations_of(document: Document) -> list[Operation]:
    """Return the operations in the order of the document, without event streams."""
    return [
        _operation(document, path, method, item[method], item.get("parameters", []))
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item and not _is_stream(item[method])
    ]


def _is_stream(operation: Mapping[str, Any]) -> bool:
    contents = [content for _, response in _successes(operation) for content in response.get("content", {})]
    return bool(contents) and set(contents) == {"text/event-stream"}


def _successes(operation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for status, response in sorted(operation["responses"].items()):
        if status.startswith("2"):
            yield status, response


def _operation(
    document: Document, path: str, method: str, found: Mapping[str, Any], shared: list[Mapping[str, Any]]
) -> Operation:
    group = found["tags"][0].replace("-", "_")
    name = found["operationId"].removeprefix(f"{group}_")
    parameters = [*shared, *found.get("parameters", [])]
    query = tuple(_parameters(parameters, "query"))
    headers = tuple(_parameters(parameters, "header"))
    body = _body(found)
    fields = _fields(document, body)
    takes_key = any(each.wire == KEY for each in headers)
    key_in_body = takes_key and "idempotency_key" in fields
    headers = tuple(each for each in headers if not (key_in_body and each.wire == KEY))
    answer, is_text = _answer(found)
    answered = {header for _, response in _successes(found) for header in response.get("headers", ())}
    return Operation(
        id=found["operationId"],
        group=group,
        name=f"{name}_" if keyword.iskeyword(name) else name,
        method=method.upper(),
        path=path,
        path_names=tuple(re.findall(r"{(\w+)}", path)),
        query=query,
        headers=headers,
        body=body,
        spread=not fields & ({each.name for each in (*query, *headers)} | _OWN),
        key_in_body=key_in_body,
        takes_key=takes_key,
        answer=answer,
        is_text=is_text,
        item=_item(document, answer, query),
        doc="\n\n".join(text for text in (found.get("summary"), found.get("description")) if text),
        required=() if body is None else tuple(document["components"]["schemas"][body].get("required", ())),
        example=_example(found),
        codes=tuple(_codes(found)),
        has_etag="ETag" in answered,
        may_replay="Idempotency-Replayed" in answered,
        is_conditional="304" in found["responses"],
    )


def _parameters(parameters: list[Mapping[str, Any]], place: str) -> Iterator[Parameter]:
    for each in parameters:
        if each["in"] == place:
            name = _HEADERS.get(each["name"], each["name"].lower().replace("-", "_"))
            name = f"{name}_" if keyword.iskeyword(name) else name
            yield Parameter(
                each["name"], name, each["schema"], each.get("required", False), each.get("description", "")
            )


def _body(found: Mapping[str, Any]) -> str | None:
    schema = found.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("schema")
    if schema is None:
        return None
    reference: str = schema["$ref"]
    return reference.rsplit("/", 1)[1]


def _example(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    content = found.get("requestBody", {}).get("content", {}).get(_JSON, {})
    return next((example["value"] for example in content.get("examples", {}).values()), None)


def _codes(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the codes in the names of the referenced responses, such as `409-CONFLICT-JOB_NOT_UPDATABLE`."""
    for _, response in sorted(found["responses"].items()):
        yield from response.get("$ref", "").rsplit("/", 1)[-1].split("-")[1:]


def _fields(document: Document, body: str | None) -> set[str]:
    return set() if body is None else set(document["components"]["schemas"][body].get("properties", {}))


def _answer(found: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    for _, response in _successes(found):
        content = response.get("content", {})
        if _JSON in content:
            return content[_JSON]["schema"], False
        if content:
            return {"type": "string"}, True
    return None, False


def _item(
    document: Document, answer: Mapping[str, Any] | None, query: tuple[Parameter, ...]
) -> Mapping[str, Any] | None:
    if answer is None or "$ref" not in answer or "cursor" not in {each.name for each in query}:
        return None
    properties = document["components"]["schemas"][answer["$ref"].rsplit("/", 1)[1]].get("properties", {})
    if not {"items", "cursor"} <= set(properties):
        return None
    item: Mapping[str, Any] = properties["items"]["items"]
    return item
