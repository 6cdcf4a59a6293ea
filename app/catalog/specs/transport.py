"""Transport: description of a way to deliver; the dispatcher of the transport sends."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
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


class Example(NamedTuple):
    """Endpoint in the examples of the OpenAPI document, with the bodies of its config and payload spec, if any.

    `variant`, a suffix of the title, distinguishes examples of one transport.
    """

    name: str
    spec: Mapping[str, Any]
    variant: str = ""
    config: Mapping[str, Any] | None = None
    payload_spec: Mapping[str, Any] | None = None
    retry_policy: Mapping[str, Any] = {
        "max_attempts": 3,
        "backoff": "exponential",
        "initial_delay_ms": 1000,
        "max_delay_ms": 30000,
    }


def _is_one(_template: SpecTemplate, _config: Mapping[str, Any]) -> str:
    """Return no distinction: each server is one target."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """Way to deliver: spec of its endpoints, output and errors of its attempts, and phrases for the documentation.

    Does no I/O and is shared by all threads. `actors.dispatch` has the dispatcher of each transport.

    Attributes:
        title: Phrase in a list of transports: "deliveries to …".
        noun: Phrase in a list of kinds of targets: "a …".
        target: Returns the server of a rendered spec, which has the breaker; see `server_of`.
        spec: Schema of `spec`; its `timeout_ms`, in milliseconds, needs a default.
        output: Schema of the output of a successful attempt.
        errors: Types of errors that are retried by default.
        examples: Endpoints of the OpenAPI document.
        faults: Returns faults of a spec with its config, beyond single fields; None for no such faults.
        apart: Returns a text that distinguishes targets of one server, from the template and the config.
        stuck_grace_ms: For attempts that may outlast the stuck timeout: they count as stuck this long after their
            `timeout_ms`, counted from the claim. None: attempts end before the stuck timeout.

    Raises:
        TypeError: The schema `spec` declares no `timeout_ms` with a default.
    """

    title: str
    noun: str
    target: Callable[[Mapping[str, Any]], str]
    spec: Schema
    output: Schema
    errors: tuple[str, ...]
    examples: tuple[Example, ...]
    faults: Callable[[SpecTemplate, Mapping[str, Any]], Iterable[Detail]] | None = None
    apart: Callable[[SpecTemplate, Mapping[str, Any]], str] = _is_one
    stuck_grace_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse a spec whose attempts have no time limit."""
        if "timeout_ms" not in self.defaults:
            raise TypeError(f"{type(self.spec).__name__} declares no timeout_ms with a default")

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Values of the fields that a spec leaves out."""
        declared = self.spec.fields.items()
        return {name: field.load_default for name, field in declared if field.load_default is not missing}

    @property
    def rules(self) -> Mapping[str, FieldRule]:
        """Rules of the fields that may contain placeholders."""
        rules = {name: rule_of(field) for name, field in self.spec.fields.items()}
        return {name: rule for name, rule in rules.items() if rule is not None}


def server_of(url: str, default_port: int) -> str:
    """Return scheme, host and port of a URL, without slashes, so that the text fits into a path.

    An example is `https:api.example.com:443`; an IPv6 address is in brackets. Raises ValueError for a URL without a
    host, or with a port that is not a number.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("the URL has no host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}:{host}:{parts.port or default_port}"
