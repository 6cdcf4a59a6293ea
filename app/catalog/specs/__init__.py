"""Specs of endpoints: one module per transport, with the transport's name, which defines `TRANSPORT`."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from app.catalog.scrub import MASK, Scrubber
from app.catalog.specs.transport import Transport
from app.catalog.templates.compilation import compile_fields
from app.catalog.templates.nodes import STAND_IN, SpecTemplate
from schema.states import EndpointType

TRANSPORTS: Mapping[EndpointType, Transport] = {
    endpoint_type: import_module(f"{__name__}.{endpoint_type.queue}").TRANSPORT for endpoint_type in EndpointType
}
MAX_CHARACTERS, KEPT_CHARACTERS = 200, 150  # of the name of a target; databases bound the size of keys


def _listed(phrases: Sequence[str], conjunction: str) -> str:
    *before, last = phrases
    return f"{', '.join(before)} {conjunction} {last}"


# Phrases for the OpenAPI document.
TITLES = _listed([transport.title for transport in TRANSPORTS.values()], "and")
TARGETS = _listed([transport.noun for transport in TRANSPORTS.values()], "or")


def compile_spec(endpoint_type: EndpointType, spec: Mapping[str, Any]) -> SpecTemplate:
    """Compile a spec with its defaults filled in; raises TemplateError with one detail per fault."""
    transport = TRANSPORTS[endpoint_type]
    return compile_fields({**transport.defaults, **spec}, transport.rules)


def target_name(
    type_: EndpointType, spec: Mapping[str, Any], masked: Mapping[str, Any] | None, scrubber: Scrubber, apart: str = ""
) -> str:
    """Return the server of a rendered spec, with secrets masked and a long name truncated, for display and for keys.

    A digest keeps masked, truncated and `apart` names distinct. `masked` is the spec with STAND_IN for its secrets: a
    host can be spelt differently from the secret that it contains, so the scrubber alone might not find the secret.
    """
    target = TRANSPORTS[type_].target
    try:
        name = target(spec)
    except ValueError:
        return ""
    try:
        shown = name if masked is spec else target(masked or {})
    except (KeyError, ValueError):
        shown = f"{name.partition(':')[0]}:{STAND_IN}"
    shown = scrubber.text(shown).replace(STAND_IN, MASK)
    is_as_it_is = shown == name and len(name) <= MAX_CHARACTERS and not apart
    return name if is_as_it_is else with_digest(shown, apart or name)


def with_digest(shown: str, of: str) -> str:
    """Return the name, truncated if too long, and a digest of `of`."""
    kept = shown if len(shown) <= MAX_CHARACTERS else shown[:KEPT_CHARACTERS]
    return f"{kept}~{hashlib.blake2b(of.encode(), digest_size=4).hexdigest()}"
