"""Fields shared by resources: names, instants, counts, and the base of every request body."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.kernel.errors import InvalidRequestError
from app.kernel.formats import duration_ms, iso_duration_ms, rfc3339, show_duration
from app.kernel.suggestions import StrictSchema
from app.schedule.interval import parse_every
from app.schedule.zones import fault_of
from schema.job_bounds import EARLIEST_INSTANT, LATEST_INSTANT, MAX_DELAY_MS, MAX_NAME, OWN_KEY_PREFIX
from schema.states import CallbackEvent

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


OF_UNREADABLE = '`{"unreadable": "reason"}` replaces a value that SQL has stored and no process can read'


class Body(StrictSchema):
    """A request body or query; unknown fields are refused."""

    error_messages = {"type": "Must be an object."}  # noqa: RUF012 - marshmallow declares it of an instance


class Name(fields.String):
    """Name that fits in a URL: lower-case letters, digits and single hyphens between them."""

    pattern = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
    words = "lower-case letters and digits, with single hyphens between them"

    def __init__(self, **kwargs: Any) -> None:
        shape = {"pattern": f"^{self.pattern.pattern}$", "minLength": 1, "maxLength": MAX_NAME}
        super().__init__(metadata={**shape, **kwargs.pop("metadata", {})}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        if len(text) > MAX_NAME or not self.pattern.fullmatch(text):
            raise ValidationError(f"Must be {self.words}, at most {MAX_NAME} characters.")
        return text


class SecretName(Name):
    """Name that may also contain underscores."""

    pattern = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
    words = "lower-case letters and digits, with single hyphens or underscores between them"


class Instant(fields.DateTime):
    """Time in RFC 3339 with an offset; loaded as UTC, dumped with Z or the offset of its time zone."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> datetime:  # noqa: ARG002
        return read_instant(value)

    def _serialize(self, value: datetime | None, attr: str | None, obj: Any, **kwargs: Any) -> str | None:  # noqa: ARG002
        return None if value is None else rfc3339(value)


def read_instant(value: Any) -> datetime:
    """Parse an instant to UTC; raises ValidationError."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValidationError("Must be a time with an offset, such as 2030-01-31T09:00:00Z (RFC 3339).")
    try:
        instant = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValidationError("Must be a time that exists.") from None
    if not EARLIEST_INSTANT <= instant < LATEST_INSTANT:
        raise ValidationError(f"Must lie between {EARLIEST_INSTANT.year} and {LATEST_INSTANT.year}.")
    return instant


class QueryInstant(Instant):
    """Instant in a query string, where an unescaped plus sign arrives as a space."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> datetime:
        return super()._deserialize(str(value).replace(" ", "+"), attr, data, **kwargs)


def check_zone(name: str) -> None:
    """Refuse a name that is not in the IANA database."""
    if message := fault_of(name):
        raise ValidationError(message)


class Zone(fields.String):
    """Name of the IANA database."""

    def __init__(self, **kwargs: Any) -> None:
        metadata = {"description": "an IANA time zone", "example": "Europe/Berlin", **kwargs.pop("metadata", {})}
        super().__init__(validate=check_zone, metadata=metadata, **kwargs)


class Every(fields.Field[int]):
    """Interval of a job, loaded as milliseconds."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            metadata={"type": ["string", "integer"], "example": "5m", **kwargs.pop("metadata", {})}, **kwargs
        )

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> int:  # noqa: ARG002
        try:
            return parse_every(value)
        except InvalidRequestError as error:
            raise ValidationError(error.details[0]["message"]) from None


class Delay(fields.Field[int]):
    """Time from now until a job is due, loaded as milliseconds."""

    def __init__(self, **kwargs: Any) -> None:
        metadata = {"type": ["string", "integer"], "example": "10m", **kwargs.pop("metadata", {})}
        super().__init__(metadata=metadata, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> int:  # noqa: ARG002
        return read_delay(value)


def read_delay(value: object) -> int:
    """Parse a delay to milliseconds; raises ValidationError."""
    milliseconds = value if type(value) is int else duration_ms(value)
    if milliseconds is None:
        milliseconds = iso_duration_ms(value)
    if milliseconds is None:
        raise ValidationError("Must be a duration, such as 500ms, 10s, 5m, 2h, 1d or PT10M, or milliseconds.")
    if not 0 <= milliseconds <= MAX_DELAY_MS:
        raise ValidationError(f"Must be from 0 to {show_duration(MAX_DELAY_MS)}.")
    return milliseconds


class LimitKey(fields.String):
    """Limit key of an execution; stored as an empty text, or as an equals sign and the key."""

    def _serialize(self, value: str | None, attr: str | None, obj: Any, **kwargs: Any) -> str | None:  # noqa: ARG002
        return shown_key(value or "")


def shown_key(stored: str) -> str | None:
    """Return a stored limit key without its equals sign; None if empty."""
    return stored[1:] if stored else None


class Count(fields.Integer):
    """Whole number in a query string: digits only."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10):
            raise ValidationError("Must be a whole number.")
        return super()._deserialize(value, attr, data, **kwargs)


# The endpoint to call back for each event of a job's executions.
_CALLBACKS: dict[str, fields.Field[Any]] = {event.value: Name(allow_none=True) for event in CallbackEvent}
CallbacksSchema = Schema.from_dict(_CALLBACKS, name="CallbacksSchema")
NewCallbacksSchema = Body.from_dict(_CALLBACKS, name="NewCallbacksSchema")


def callbacks_field(*, metadata: dict[str, Any]) -> fields.Nested:
    return fields.Nested(NewCallbacksSchema, allow_none=True, metadata=metadata)


def check_key(key: str) -> None:
    """Refuse an idempotency key of the service's own jobs; raises ValidationError."""
    if key.startswith(OWN_KEY_PREFIX):
        raise ValidationError(f"Must not begin with {OWN_KEY_PREFIX!r}, which is reserved. Use another key.")
