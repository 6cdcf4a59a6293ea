"""Transport: everything about one except how it sends, which is its dispatcher's task."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from marshmallow import INCLUDE, Schema, missing

from app.catalog.specs.spec_fields import rule_of
from app.catalog.templates.compilation import SpecTemplate
from app.catalog.templates.field_rules import Rule
from app.kernel.errors import Detail


class Outcome(Schema):
    """Outcome of an attempt: written by a worker and shown as it was stored; a later worker may say more."""

    class Meta:
        """Options of marshmallow."""

        unknown = INCLUDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An endpoint in the examples of the OpenAPI document, with the config and the payload spec that it names."""

    name: str
    spec: Mapping[str, Any]
    variant: str = ""  # what sets it apart from the other examples of its transport
    config: Mapping[str, Any] | None = None
    payload_spec: Mapping[str, Any] | None = None
    retry_policy: Mapping[str, Any] = field(
        default_factory=lambda: {
            "max_attempts": 3,
            "backoff": "exponential",
            "initial_delay_ms": 1000,
            "max_delay_ms": 30000,
        }
    )


def _no_faults(_template: SpecTemplate, _config: Mapping[str, Any]) -> Iterable[Detail]:
    """Find nothing that a transport would refuse by more than its fields."""
    return ()


def _is_one(_template: SpecTemplate, _config: Mapping[str, Any]) -> str:
    """Tell nothing apart: a server is one target, whoever sends what to it."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """A way to deliver: what an endpoint says, what its attempts leave behind, and how to speak of it."""

    title: str  # in a list of transports: "deliveries to …"
    noun: str  # in a list of what endpoints are: "a …"
    target: Callable[[Mapping[str, Any]], str]  # the server that a rendered spec leads to; see `server_of`
    spec: Schema
    output: Schema
    errors: tuple[str, ...]  # types of the errors of its attempts that are retried
    examples: tuple[Example, ...]
    faults: Callable[[SpecTemplate, Mapping[str, Any]], Iterable[Detail]] = _no_faults  # of a template and its config
    apart: Callable[[SpecTemplate, Mapping[str, Any]], str] = _is_one  # what tells targets of one server apart

    def __post_init__(self) -> None:
        """Refuse a spec whose attempts have no time limit."""
        if "timeout_ms" not in self.defaults:
            raise TypeError(f"{type(self.spec).__name__} declares no timeout_ms with a default")

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Return what fields that are left out mean."""
        declared = self.spec.fields.items()
        return {name: field.load_default for name, field in declared if field.load_default is not missing}

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the rules of the fields that are templated."""
        rules = {name: rule_of(field) for name, field in self.spec.fields.items()}
        return {name: rule for name, rule in rules.items() if rule is not None}


def server_of(url: str, default_port: int) -> str:
    """Return scheme, host and port of a URL, without slashes, so that it fits into a path: `https:api.example.com:443`.

    Neither user nor password are in it; raises ValueError for what is no URL.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("a URL without a host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}:{host}:{parts.port or default_port}"
