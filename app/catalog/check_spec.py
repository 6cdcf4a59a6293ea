"""Checks of an endpoint at registration, for faults that would fail every delivery.

A spec of the wrong shape is InvalidRequestError (400); a template that cannot be resolved is TemplateError (422).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from marshmallow import Schema
from sqlalchemy import Connection

from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs import TRANSPORTS, compile_spec
from app.catalog.templates.nodes import Placeholder, SpecTemplate, UrlNode, resolve, template_error
from app.kernel.errors import Detail, InvalidRequestError, TemplateError
from app.kernel.formats import escaped, marshmallow_faults, pointer
from schema.states import EndpointType

Exist = Callable[[Sequence[str]], Iterable[str]]
SpecCheck = Callable[[Connection, str, Mapping[str, Any], Any], None]
"""Checks the spec of an endpoint, given with its name and its payload schema, against stored rows.

It locks rows that must not be deleted, and raises a TaskExecutorError with pointers.
"""
NO_CHECKS: Mapping[EndpointType, SpecCheck] = {}


def check_spec(
    endpoint_type: EndpointType,
    spec: Any,
    *,
    config: Mapping[str, Any] | None,
    secret_names_exist: Exist,
    payload_schema: Any | None,
    stuck_timeout_ms: int,
) -> SpecTemplate:
    """Check a spec against its config, secrets and payload schema; return it compiled.

    `secret_names_exist` returns the existing names among its arguments; it is called at most once, never without names.
    """
    transport = TRANSPORTS[endpoint_type]
    _check_shape(transport.spec, spec, "/spec")
    longest = stuck_timeout_ms if transport.stuck_grace_ms is None else math.inf
    _check_timeouts(spec, spec.get("timeout_ms", transport.defaults["timeout_ms"]), longest)
    template = compile_spec(endpoint_type, spec)
    faults = [
        *_config_faults(template, config),
        *_secret_faults(template, secret_names_exist),
        *input_faults(template.placeholders, payload_schema),
        *(transport.faults(template, config or {}) if transport.faults else ()),
    ]
    if faults:
        raise template_error(faults)
    return template


def check_retry_policy(policy: Any) -> None:
    """Check a `retry_policy`; absent fields have defaults, and None is the default policy."""
    if policy is not None:
        _check_shape(RETRY_POLICY, policy, "/retry_policy")


def _check_shape(schema: Schema, value: Any, at: str) -> None:
    is_object = isinstance(value, Mapping)
    faults = marshmallow_faults(schema.validate(value)) if is_object else [((), "Must be an object.")]
    _refuse([Detail(pointer=at + pointer(path), message=text) for path, text in faults])


def _check_timeouts(spec: Mapping[str, Any], timeout_ms: int, stuck_timeout_ms: float) -> None:
    if timeout_ms >= stuck_timeout_ms:
        # A delivery that outlives the reclaim would run twice at once.
        _refuse([Detail(pointer="/spec/timeout_ms", message=f"Must be below {stuck_timeout_ms}, not {timeout_ms}.")])
    soft_ms = spec.get("soft_timeout_ms")
    if soft_ms is not None and soft_ms >= timeout_ms:
        fault = f"Must be below timeout_ms ({timeout_ms}), not {soft_ms}."
        _refuse([Detail(pointer="/spec/soft_timeout_ms", message=fault)])


def _refuse(faults: Sequence[Detail]) -> None:
    if faults:
        raise InvalidRequestError.of_faults(*faults)


def _config_faults(template: SpecTemplate, config: Mapping[str, Any] | None) -> list[Detail]:
    used = [item for item in template.placeholders if item.namespace == "config"]
    if config is None and used:
        message = "needs a config, and the endpoint names none: give the name of a config in `config`."
        return [Detail(pointer=item.pointer, message=f"{item} {message}") for item in used]
    faults: list[Detail] = []
    for item in used:
        try:
            resolve(item, {"config": config})
        except TemplateError as error:
            faults += error.details
    try:
        if not faults:
            _render_what_is_known(template, config or {})
    except TemplateError as error:
        faults += error.details
    return faults


def _render_what_is_known(template: SpecTemplate, config: Mapping[str, Any]) -> None:
    """Render the fields that depend on the config only, to find a base URL without a scheme or a wrong `max_len`."""
    for name, node in template.root.items:
        below = f"/spec/{escaped(name)}"
        here = [item for item in template.placeholders if (item.pointer + "/").startswith(below + "/")]
        if isinstance(node, UrlNode) and all(item.namespace != "secret" for item in here):
            pieces = tuple(
                ("x", None) if isinstance(part, Placeholder) and part.namespace == "input" else (part, escape)
                for part, escape in node.pieces
            )
            UrlNode(pieces, node.pointer, node.schemes, node.finish).render({"config": config})
        elif all(item.namespace == "config" for item in here):
            node.render({"config": config})


def _secret_faults(template: SpecTemplate, exist: Exist) -> Iterator[Detail]:
    refs = template.secret_refs
    missing = refs.difference(exist(sorted(refs))) if refs else refs
    for item in template.placeholders:
        if item.namespace == "secret" and ".".join(item.path) in missing:
            yield Detail(
                pointer=item.pointer,
                message=f"{item} cannot be resolved: there is no such secret. Create it first: POST /secrets.",
            )


def input_faults(placeholders: Iterable[Placeholder], payload_schema: Any | None) -> Iterator[Detail]:
    """Report input placeholders that no input valid by the payload schema can fill."""
    for item in placeholders:
        if item.namespace == "input" and payload_schema is not None and not _is_possible(item.path, payload_schema):
            yield Detail(
                pointer=item.pointer,
                message=f"{item} is never there: the payload spec does not allow it.",
            )


def _is_possible(path: tuple[str, ...], schema: Any) -> bool:
    """Return whether a value at this path can be valid.

    Only the schema's own keywords count: `$ref`, `anyOf` and similar keywords can forbid more, never allow more.
    """
    if not path or not isinstance(schema, Mapping):
        return schema is not False
    types = schema.get("type", ["object", "array"])
    types = [types] if isinstance(types, str) else types
    below = []
    if "object" in types:
        below.append(_property(path[0], schema))
    if "array" in types and path[0].isdigit():
        below.append(_item(int(path[0][:9]), schema))
    return any(_is_possible(path[1:], item) for item in below)


def _property(name: str, schema: Mapping[str, Any]) -> Any:
    if name in schema.get("properties", {}):
        return schema["properties"][name]
    if schema.get("patternProperties"):
        return True  # does not run patterns of clients
    return schema.get("additionalProperties", True)


def _item(index: int, schema: Mapping[str, Any]) -> Any:
    prefix, items = schema.get("prefixItems", []), schema.get("items", True)
    if isinstance(items, list):  # the spelling before JSON Schema 2020-12
        prefix, items = items, schema.get("additionalItems", True)
    return prefix[index] if index < len(prefix) else items
