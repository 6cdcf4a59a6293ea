"""Name of the target of a rendered spec, without secrets, for display and for keys. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

from app.catalog.scrub import MASK, Scrubber
from app.catalog.specs import TRANSPORTS
from app.catalog.templates.nodes import STAND_IN, SpecTemplate
from schema.states import EndpointType

MAX_CHARACTERS, KEPT_CHARACTERS = 200, 150  # databases bound the size of keys


def target_name(
    type_: EndpointType, spec: Mapping[str, Any], masked: Mapping[str, Any] | None, scrubber: Scrubber, apart: str = ""
) -> str:
    """Return the server of a spec, with secrets masked and a long name truncated.

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


def apart_of(type_: EndpointType, template: SpecTemplate, config: Mapping[str, Any]) -> str:
    """Return a text that distinguishes targets of one server, with names of secrets; empty if each server is one."""
    return TRANSPORTS[type_].apart(template, config)


def with_digest(shown: str, of: str) -> str:
    """Return the name, truncated if too long, and a digest of `of`."""
    kept = shown if len(shown) <= MAX_CHARACTERS else shown[:KEPT_CHARACTERS]
    return f"{kept}~{hashlib.blake2b(of.encode(), digest_size=4).hexdigest()}"
