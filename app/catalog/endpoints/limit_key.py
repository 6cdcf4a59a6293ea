"""Limit keys: executions whose inputs have the same value at a placeholder share limits."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from app.catalog.check_spec import input_faults
from app.catalog.templates.compilation import INPUT, FieldKind, FieldRule, compile_fields
from app.catalog.templates.nodes import Placeholder, SolePlaceholder, as_text, resolve, template_error
from app.kernel.errors import Detail, TemplateError
from schema.job_bounds import MAX_LIMIT_KEY

NO_KEY = ""
_AT = "/limits/per_key"


def limit_key_of(placeholder: Placeholder, input_: Any) -> str:
    """Return the key of an input: `=` and the value, or a digest of a long value.

    Inputs without the value share the empty key: their deliveries may not need the value.
    """
    try:
        return stored_key(as_text(resolve(placeholder, {"input": input_})))
    except TemplateError:
        return stored_key("")


def stored_key(value: str) -> str:
    """Return the limit key of a value, as stored in rows."""
    if len(value) > MAX_LIMIT_KEY or value.startswith("#"):
        # A value that looks like a digest is hashed too, so that no client can choose the key of another value.
        value = f"#{blake2b(value.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
    return f"={value}"


def key_placeholder(limits: Mapping[str, Any] | None) -> Placeholder | None:
    """Compile the `per_key.key` of an endpoint's limits, if any; raises TemplateError."""
    text = (limits or {}).get("per_key", {}).get("key")
    if text is None:
        return None
    compiled = compile_fields({"key": text}, {"key": FieldRule(FieldKind.VALUE, INPUT)}, at=_AT)
    (_, node), *_ = compiled.root.items
    if not isinstance(node, SolePlaceholder):
        message = "one {{input.…}} placeholder is needed, and nothing else"
        raise template_error([Detail(pointer=f"{_AT}/key", message=message)])
    return node.placeholder


def check_key(limits: Mapping[str, Any] | None, payload_schema: Any | None) -> None:
    """Raise TemplateError for a key that is not an input placeholder, or that no valid input can fill."""
    placeholder = key_placeholder(limits)
    if faults := list(input_faults([placeholder], payload_schema)) if placeholder else []:
        raise template_error(faults)
