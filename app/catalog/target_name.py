"""Name of a target: what a rendered spec leads to, as it may be shown and be part of keys. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

from app.catalog.scrub import MASK, Scrubber
from app.catalog.specs import TRANSPORTS
from app.catalog.templates.compilation import STAND_IN, SpecTemplate
from schema.states import EndpointType

MAX_CHARACTERS, KEPT_CHARACTERS = 200, 150  # it is part of keys, whose size databases bound


def target_name(
    type_: EndpointType, spec: Mapping[str, Any], masked: Mapping[str, Any] | None, scrubber: Scrubber, apart: str = ""
) -> str:
    """Return the server that a spec leads to; what is secret of its name is masked, or too long is left out.

    Such names are told apart by a digest, as are those of one server by what `apart_of` says. `masked` is the spec with
    other values for its secrets: a host is not spelt as the secret that it holds, so no scrubber would find that.
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
    """Return what tells the targets of one server apart, with the names of secrets; empty where the server is one."""
    return TRANSPORTS[type_].apart(template, config)


def with_digest(shown: str, of: str) -> str:
    """Return a name that differs where `of` does; what is too long of it is left out."""
    kept = shown if len(shown) <= MAX_CHARACTERS else shown[:KEPT_CHARACTERS]
    return f"{kept}~{hashlib.blake2b(of.encode(), digest_size=4).hexdigest()}"
