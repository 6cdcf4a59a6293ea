"""Fields of an endpoint's flow in requests: valid values, words for what is not, and what the document says of them."""

from collections.abc import Mapping
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, validate, validates_schema

from app.catalog.specs.spec_fields import Described
from app.kernel.formats import duration_ms, show_duration
from schema.job_bounds import MAX_PRIORITY, QUEUE_NAME

DEFAULT_PRIORITY = 128
MOST = 1_000_000
MAX_KEY = 200
OFF = "off"

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_LONGEST_RETENTION = 365 * 24 * _HOUR
_PAUSE = "Must be at least 1: to stop an endpoint, pause it."
_QUEUE = "Must begin with a lower-case letter; 1 to 63 lower-case letters, digits, underscores and hyphens."


class Whole(validate.Regexp):
    """A string that a pattern describes to its end: for Python, `$` is before a last line feed as well."""

    def __call__(self, value: Any) -> Any:
        """Return the string; raises ValidationError."""
        if not self.regex.fullmatch(value):
            raise ValidationError(self._format_error(value))
        return value


def queue_field(**options: Any) -> fields.String:
    """Declare the name of a queue."""
    return fields.String(validate=Whole(QUEUE_NAME, error=_QUEUE), **options)


def priority_field(**options: Any) -> fields.Integer:
    """Declare a priority; among due executions a higher priority goes first."""
    return fields.Integer(strict=True, validate=validate.Range(0, MAX_PRIORITY), **options)


def _most(**options: Any) -> fields.Integer:
    return fields.Integer(strict=True, validate=[validate.Range(1, error=_PAUSE), validate.Range(max=MOST)], **options)


def _duration(shortest_ms: int, longest_ms: int, *, of: type[Described] = Described, **options: Any) -> Described:
    bounds = f"from {show_duration(shortest_ms)} to {show_duration(longest_ms)}"
    spelt = f"Must be a duration {bounds}: a whole number and ms, s, m, h or d, such as 5m."

    def check(value: Any) -> None:
        milliseconds = duration_ms(value)
        if milliseconds is None or not shortest_ms <= milliseconds <= longest_ms:
            raise ValidationError(spelt)

    type_: Any = ["string", "null"] if options.get("allow_none") else "string"
    return of(check, {"type": type_, "pattern": "^[0-9]{1,12}(ms|s|m|h|d)$"}, **options)


class _Canonical(Described):
    """A duration, in the largest unit that divides it."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        milliseconds = duration_ms(value)
        return value if milliseconds is None else show_duration(milliseconds)


def retention_field(**options: Any) -> Described:
    """Declare how long results are kept; null: as long as executions."""
    return _duration(_MINUTE, _LONGEST_RETENTION, of=_Canonical, **options)


class _Flow(Schema):
    """The base: unknown fields are refused."""

    class Meta:
        """What marshmallow is told."""

        unknown = RAISE

    error_messages = {"type": "Must be an object."}  # noqa: RUF012 - marshmallow declares it of an instance


class RateSpec(_Flow):
    """How many executions may start in a time: as a bucket of tokens fills, or at most so many in any window."""

    count = _most(required=True, metadata={"example": 100})
    per = _duration(_SECOND, 24 * _HOUR, required=True, metadata={"description": "`1s` to `24h`", "example": "1s"})
    burst = _most(
        metadata={
            "description": "starts of a burst, the last 100 ms of which are paced; what 100 ms bring when absent",
            "example": 20,
        }
    )
    window = fields.String(
        validate=validate.OneOf(["sliding"]),
        metadata={"description": "`sliding`: never more than `count` in any `per`, in whatever order; without a burst"},
    )

    @validates_schema
    def _together(self, data: Mapping[str, Any], **_options: Any) -> None:
        if "burst" in data and "window" in data:
            raise ValidationError("Not with a sliding window, which has no burst.", "burst")
        if data.get("burst", 0) > data["count"]:
            raise ValidationError(f"Must be at most count ({data['count']}).", "burst")


class KeyLimitsSpec(_Flow):
    """Limits of each key apart: executions whose inputs have the same value share them, and a turn."""

    key = fields.String(
        required=True,
        validate=validate.Length(1, MAX_KEY),
        metadata={"description": "one placeholder of the input", "example": "{{input.tenant}}"},
    )
    max_in_flight = _most(metadata={"example": 2})
    rate = fields.Nested(RateSpec)


class LimitsSpec(_Flow):
    """Limits of an endpoint, over all workers; at least one of them."""

    max_in_flight = _most(metadata={"description": "how many may run at the same time", "example": 20})
    rate = fields.Nested(RateSpec)
    per_key = fields.Nested(KeyLimitsSpec)

    @validates_schema
    def _some(self, data: Mapping[str, Any], **_options: Any) -> None:
        if not data:
            raise ValidationError("At least one of max_in_flight, rate and per_key is needed; null takes all away.")


class Ratio(fields.Float):
    """A fraction: a number, and no text that reads like one."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        if not isinstance(value, int | float):
            raise ValidationError("Not a valid number.")
        return super()._deserialize(value, attr, data, **kwargs)


class BreakerSpec(_Flow):
    """When an endpoint's target counts as broken, and for how long nothing is sent to it then."""

    failure_ratio = Ratio(validate=validate.Range(0.01, 1), metadata={"description": "0.5 when absent", "example": 0.5})
    min_results = fields.Integer(
        strict=True, validate=validate.Range(1, 10_000), metadata={"description": "10 when absent", "example": 10}
    )
    window = _duration(10 * _SECOND, 10 * _MINUTE, metadata={"description": "`1m` when absent", "example": "1m"})
    open_for = _duration(_SECOND, _HOUR, metadata={"description": "`30s` when absent", "example": "30s"})


RATE = RateSpec()
LIMITS = LimitsSpec()
BREAKER = BreakerSpec()
