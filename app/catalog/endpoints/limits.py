"""Limits of an endpoint: executions in flight, and starts per period, also per key. Pure.

Executions whose inputs have the same value at a placeholder have the same limit key and share limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from app.catalog.check_spec import input_faults
from app.catalog.templates.compilation import INPUT, FieldKind, FieldRule, compile_fields
from app.catalog.templates.nodes import Placeholder, SolePlaceholder, as_text, resolve, template_error
from app.kernel.errors import Detail, TemplateError
from app.kernel.formats import duration_ms, show_duration
from schema.job_bounds import MAX_LIMIT_KEY

NO_KEY = ""
_AT = "/limits/per_key"
DEFAULT_BURST_MS = 100
NS_PER_MS = 1_000_000
# The last part of a burst is paced, so that deliveries that start late, by up to this, do not exceed the rate.
LATENESS_NS = 100 * NS_PER_MS
BUCKETS = 100  # of a sliding window
RING = 128  # slots for the buckets; more than BUCKETS, so that live buckets never share a slot


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in `per_ns`: a token bucket that holds `burst`, or a sliding window."""

    count: int
    per_ns: int
    burst: int
    is_sliding: bool

    @property
    def period_ns(self) -> int:
        """Time between two starts, rounded up, so that never more than `count` start in `per_ns`."""
        return -(-self.per_ns // self.count)

    @property
    def span_ns(self) -> int:
        """Burst tolerance: how far a full bucket may run ahead of the pace; at least one period."""
        period = self.period_ns
        return max(period, self.burst * period - max(0, LATENESS_NS - period))

    @property
    def bucket_ns(self) -> int:
        return -(-self.per_ns // BUCKETS)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Rate":
        """Read a stored rate; raises ValueError, TypeError or KeyError if it was edited manually."""
        per_ms = duration_ms(stored["per"])
        if per_ms is None:
            raise ValueError("no duration")
        count, is_sliding = int(stored["count"]), stored.get("window") == "sliding"
        if count < 1 or per_ms < 1:
            raise ValueError("no rate")
        burst = int(stored.get("burst") or default_burst(count, per_ms))
        return cls(count, per_ms * NS_PER_MS, burst, is_sliding)

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"count": self.count, "per": show_duration(self.per_ns // NS_PER_MS)}
        return shown | ({"window": "sliding"} if self.is_sliding else {"burst": self.burst})


class EndpointLimits(NamedTuple):
    """Limits of an endpoint, or of each of its keys."""

    max_in_flight: int | None
    rate: Rate | None
    per_key: "EndpointLimits | None" = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "EndpointLimits":
        most, rate, keyed = (stored.get(name) for name in ("max_in_flight", "rate", "per_key"))
        return cls(
            None if most is None else int(most),
            None if rate is None else Rate.from_json(rate),
            None if keyed is None else cls.from_json(keyed),
        )


def default_burst(count: int, per_ms: int) -> int:
    """Return the starts in DEFAULT_BURST_MS at this rate, at least one."""
    return max(1, count * DEFAULT_BURST_MS // per_ms)


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
        message = "Must be one {{input.NAME}} placeholder, without other text."
        raise template_error([Detail(pointer=f"{_AT}/key", message=message)])
    return node.placeholder


def check_key(limits: Mapping[str, Any] | None, payload_schema: Any | None) -> None:
    """Raise TemplateError for a key that is not an input placeholder, or that no valid input can fill."""
    placeholder = key_placeholder(limits)
    if faults := list(input_faults([placeholder], payload_schema)) if placeholder else []:
        raise template_error(faults)
