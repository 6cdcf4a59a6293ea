"""What may be templated in an endpoint spec, field by field, and what an absent field means.

Brief 1, "Endpoint field reference", plus PRODUCT 3. A field that is not listed takes no placeholder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from schema.states import EndpointType


class Kind(Enum):
    """How a field is rendered."""

    VALUE = auto()  # any JSON; a sole placeholder keeps its type
    TEXT = auto()  # always a string
    LINE = auto()  # a string without control characters: nothing can end a header early
    URL = auto()  # a URL whose scheme, host and port the input cannot change
    COUNT = auto()  # a whole number from 1


@dataclass(frozen=True, slots=True)
class Field:
    """One templated field: its rendering, and the namespaces that its placeholders may use."""

    kind: Kind
    namespaces: frozenset[str]
    schemes: frozenset[str] = frozenset()  # of a URL


_CONFIG = frozenset({"config"})
_STATIC = frozenset({"config", "secret"})
_ALL = frozenset({"input", "config", "secret"})

FIELDS: Mapping[EndpointType, Mapping[str, Field]] = {
    EndpointType.HTTP: {
        "url": Field(Kind.URL, _ALL, frozenset({"http", "https"})),
        "headers": Field(Kind.LINE, _ALL),
        "body_template": Field(Kind.VALUE, _ALL),
        "signing": Field(Kind.TEXT, frozenset({"secret"})),
    },
    EndpointType.KAFKA: {
        "bootstrap_servers": Field(Kind.LINE, _STATIC),
        "topic": Field(Kind.LINE, _CONFIG),
        "key_template": Field(Kind.VALUE, frozenset({"input", "config"})),
        "value_template": Field(Kind.VALUE, _ALL),
        "headers": Field(Kind.LINE, _ALL),
        "properties": Field(Kind.TEXT, _STATIC),  # certificates have several lines
    },
    EndpointType.REDIS_STREAM: {
        "redis_url": Field(Kind.URL, _STATIC, frozenset({"redis", "rediss"})),
        "stream": Field(Kind.LINE, _CONFIG),
        "fields_template": Field(Kind.VALUE, _ALL),
        "max_len": Field(Kind.COUNT, _CONFIG),
    },
}

DEFAULTS: Mapping[EndpointType, Mapping[str, Any]] = {
    EndpointType.HTTP: {
        "method": "POST",
        "headers": {},
        "timeout_ms": 30_000,
        "expected_status_codes": [200, 201, 202, 204],
    },
    EndpointType.KAFKA: {"headers": {}, "properties": {}, "acks": "all", "timeout_ms": 10_000},
    EndpointType.REDIS_STREAM: {"approximate_trimming": True, "timeout_ms": 3_000},
}
