"""Fields of an endpoint's live settings in requests: valid values, error messages and OpenAPI descriptions."""

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from app.catalog.specs.spec_fields import DescribedValue
from app.kernel.described_fields import described
from app.kernel.formats import duration_ms, show_duration
from app.kernel.suggestions import StrictSchema
from schema.job_bounds import MAX_PRIORITY, QUEUE_NAME

DEFAULT_PRIORITY = 128
MAX_LIMIT = 1_000_000
MAX_KEY = 200
OFF = "off"

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_LONGEST_RETENTION = 365 * 24 * _HOUR
_PAUSE = "Must be from {min} to {max}. To stop an endpoint, pause it."
_QUEUE = "Must begin with a lower-case letter; 1 to 63 lower-case letters, digits, underscores and hyphens."


class FullMatch(validate.Regexp):
    """Match of the whole string: in Python, `$` also matches before a final line feed."""

    def __call__(self, value: Any) -> Any:
        if not self.regex.fullmatch(value):
            raise ValidationError(self._format_error(value))
        return value


def queue_field(**options: Any) -> fields.String:
    return fields.String(validate=FullMatch(QUEUE_NAME, error=_QUEUE), **options)


def priority_field(**options: Any) -> fields.Integer:
    """Declare a priority; due executions of higher priority start first."""
    return fields.Integer(strict=True, validate=validate.Range(0, MAX_PRIORITY), **options)


def _limit(**options: Any) -> fields.Integer:
    return fields.Integer(strict=True, validate=validate.Range(1, MAX_LIMIT, error=_PAUSE), **options)


def _duration(shortest_ms: int, longest_ms: int, **options: Any) -> DescribedValue:
    bounds = f"from {show_duration(shortest_ms)} to {show_duration(longest_ms)}"
    spelt = f"Must be a duration {bounds}: a whole number and ms, s, m, h or d, such as 5m."

    def check(value: Any) -> None:
        milliseconds = duration_ms(value)
        if milliseconds is None or not shortest_ms <= milliseconds <= longest_ms:
            raise ValidationError(spelt)

    type_: Any = ["string", "null"] if options.get("allow_none") else "string"
    return DescribedValue(check, {"type": type_, "pattern": "^[0-9]{1,12}(ms|s|m|h|d)$"}, **options)


def retention_field(**options: Any) -> DescribedValue:
    """Declare the retention of results; null: as long as executions."""
    return _duration(_MINUTE, _LONGEST_RETENTION, **options)


class _Flow(StrictSchema):
    error_messages = {"type": "Must be an object."}  # noqa: RUF012 - marshmallow declares it of an instance


class RateSpec(_Flow):
    """Rate of starts: a token bucket, or at most `count` in any sliding window."""

    count = _limit(required=True, **described(example=100))
    per = _duration(_SECOND, 24 * _HOUR, required=True, **described("`1s` to `24h`", example="1s"))
    burst = _limit(
        **described(
            "starts of a burst, the last 100 ms of which are paced; when absent, the starts of 100 ms", example=20
        )
    )
    window = fields.String(
        validate=validate.OneOf(["sliding"]),
        **described("`sliding`: never more than `count` in any period of `per`; excludes `burst`"),
    )

    @validates_schema
    def _together(self, data: Mapping[str, Any], **_options: Any) -> None:
        if "burst" in data and "window" in data:
            raise ValidationError("Must be absent with a sliding window, which has no burst.", "burst")
        if data.get("burst", 0) > data["count"]:
            raise ValidationError(f"Must be at most count ({data['count']}).", "burst")


class KeyLimitsSpec(_Flow):
    """Limits per key: executions whose inputs have the same value share these limits and a partition."""

    key = fields.String(
        required=True,
        validate=validate.Length(1, MAX_KEY),
        **described("one placeholder of the input", example="{{input.tenant}}"),
    )
    max_in_flight = _limit(**described(example=2))
    rate = fields.Nested(RateSpec)


class LimitsSpec(_Flow):
    """Limits of an endpoint, over all workers; at least one limit is required."""

    max_in_flight = _limit(**described("executions that may run at the same time", example=20))
    rate = fields.Nested(RateSpec)
    per_key = fields.Nested(KeyLimitsSpec)

    @validates_schema
    def _some(self, data: Mapping[str, Any], **_options: Any) -> None:
        if not data:
            raise ValidationError("Must have at least one of max_in_flight, rate and per_key; null removes all limits.")


class Ratio(fields.Float):
    """Fraction: a JSON number, not a string."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        if not isinstance(value, int | float):
            raise ValidationError("Not a valid number.")
        return super()._deserialize(value, attr, data, **kwargs)


class BreakerSpec(_Flow):
    """Breaker of an endpoint's target: when it opens, and for how long."""

    failure_ratio = Ratio(validate=validate.Range(0.01, 1), **described("0.5 when absent", example=0.5))
    min_results = fields.Integer(
        strict=True, validate=validate.Range(1, 10_000), **described("10 when absent", example=10)
    )
    window = _duration(10 * _SECOND, 10 * _MINUTE, **described("`1m` when absent", example="1m"))
    open_for = _duration(_SECOND, _HOUR, **described("`30s` when absent", example="30s"))


RATE = RateSpec()
LIMITS = LimitsSpec()
BREAKER = BreakerSpec()
