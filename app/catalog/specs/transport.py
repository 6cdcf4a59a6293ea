"""Transport: description of a way to deliver; the dispatcher of the transport sends."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from marshmallow import INCLUDE, Schema, missing

from app.catalog.specs.spec_fields import rule_of
from app.catalog.templates.compilation import FieldRule
from app.catalog.templates.nodes import SpecTemplate
from app.kernel.errors import Detail


class Outcome(Schema):
    """Outcome of an attempt, shown as stored by the worker; newer workers may store further fields."""

    class Meta:
        unknown = INCLUDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Endpoint in the examples of the OpenAPI document, with its config and payload spec."""

    name: str
    spec: Mapping[str, Any]
    variant: str = ""  # suffix of the title, to distinguish examples of one transport
    config: Mapping[str, Any] | None = None
    payload_spec: Mapping[str, Any] | None = None
    retry_policy: Mapping[str, Any] = field(
        default_factory={
            "max_attempts": 3,
            "backoff": "exponential",
            "initial_delay_ms": 1000,
            "max_delay_ms": 30000,
        }.copy
    )


def _is_one(_template: SpecTemplate, _config: Mapping[str, Any]) -> str:
    """Return no distinction: each server is one target."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """Way to deliver: spec of its endpoints, output and errors of its attempts, and phrases for the documentation."""

    title: str  # in a list of transports: "deliveries to …"
    noun: str  # in a list of kinds of targets: "a …"
    target: Callable[[Mapping[str, Any]], str]  # server of a rendered spec; see `server_of`
    spec: Schema
    output: Schema
    errors: tuple[str, ...]  # types of errors that are retried by default
    examples: tuple[Example, ...]
    faults: Callable[[SpecTemplate, Mapping[str, Any]], Iterable[Detail]] | None = None  # beyond single fields
    apart: Callable[[SpecTemplate, Mapping[str, Any]], str] = _is_one  # distinguishes targets of one server

    def __post_init__(self) -> None:
        """Refuse a spec whose attempts have no time limit."""
        if "timeout_ms" not in self.defaults:
            raise TypeError(f"{type(self.spec).__name__} declares no timeout_ms with a default")

    @property
    def defaults(self) -> Mapping[str, Any]:
        declared = self.spec.fields.items()
        return {name: field.load_default for name, field in declared if field.load_default is not missing}

    @property
    def rules(self) -> Mapping[str, FieldRule]:
        rules = {name: rule_of(field) for name, field in self.spec.fields.items()}
        return {name: rule for name, rule in rules.items() if rule is not None}


def server_of(url: str, default_port: int) -> str:
    """Return scheme, host and port of a URL, without slashes, so that it fits into a path: `https:api.example.com:443`.

    Leaves out user and password; raises ValueError for a URL without a host.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("the URL has no host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}:{host}:{parts.port or default_port}"
