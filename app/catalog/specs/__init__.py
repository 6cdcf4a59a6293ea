"""Specs of endpoints: one module per transport, with the transport's name, which defines `TRANSPORT`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from app.catalog.specs.transport import Transport
from app.catalog.templates.compilation import compile_fields
from app.catalog.templates.nodes import SpecTemplate
from schema.states import EndpointType

TRANSPORTS: Mapping[EndpointType, Transport] = {
    endpoint_type: import_module(f"{__name__}.{endpoint_type.queue}").TRANSPORT for endpoint_type in EndpointType
}


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
