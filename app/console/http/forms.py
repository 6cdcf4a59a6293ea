"""Fields of forms and of addresses: typed values, or an error that names the field."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NoReturn

from flask import request
from werkzeug.datastructures import MultiDict

from app.console.views.json_text import parsed_json
from app.kernel.audit.change import AuditedChange, Condition, StateTag
from app.kernel.errors import Detail, InvalidRequestError
from app.web.http.conditions import actor
from schema.job_bounds import EARLIEST_INSTANT, LATEST_INSTANT

ETAG = "etag"
MAX_TEXT = 200
MAX_DIGITS = 15


class Fields:
    """Values of a form or of an address, by name. Spaces around a value do not count."""

    def __init__(self, values: "MultiDict[str, str]") -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return bool(self.text(name, longest=2**31))

    def text(self, name: str, default: str = "", *, longest: int = MAX_TEXT) -> str:
        """Return a text; raises InvalidRequestError if it is longer, or contains a NUL character."""
        value = self._values.get(name, "").strip()
        if len(value) > longest:
            refuse(name, f"Must have at most {longest} characters.")
        if "\0" in value:
            refuse(name, "Must not contain a NUL character.")
        return value or default

    def many(self, name: str) -> list[str]:
        """Return the values of a field that is repeated, such as ticked rows."""
        return [value for value in self._values.getlist(name) if value and "\0" not in value]

    def flag(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return bool(self._values.get(name))

    def choice(self, name: str, among: Collection[str], default: str = "") -> str:
        """Return an allowed value, or the default for an empty field; raises InvalidRequestError otherwise."""
        value = self.text(name)
        if value and value not in among:
            refuse(name, f"Must be one of {', '.join(among)}.")
        return value or default

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number; raises InvalidRequestError if it is malformed or out of bounds."""
        value = self.text(name)
        if not value:
            return default
        digits = value.removeprefix("-") if least < 0 else value
        if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS and least <= int(value) <= most):
            refuse(name, f"Must be a whole number from {least:,} to {most:,}.")
        return int(value)

    def instant(self, name: str) -> datetime | None:
        """Return an instant in ISO 8601, in UTC without an offset; None for an empty field.

        Raises InvalidRequestError if it is malformed or out of the bounds of instants.
        """
        value = self.text(name)
        if not value:
            return None
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            refuse(name, "Must be a date and a time, such as 2026-11-28T12:00.")
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        if not EARLIEST_INSTANT <= found < LATEST_INSTANT:
            refuse(name, f"Must lie between {EARLIEST_INSTANT.year} and {LATEST_INSTANT.year}.")
        return found

    def json(self, name: str, default: str = "", *, longest: int) -> Any:
        """Return a value that is given as JSON; raises InvalidRequestError as for the body of a request."""
        return json_of(name, self.text(name, default, longest=longest))

    def json_object(self, name: str, *, longest: int) -> dict[str, Any]:
        """Return an object that is given as JSON, empty for an empty field; raises InvalidRequestError."""
        value = self.json(name, "{}", longest=longest)
        if not isinstance(value, dict):
            refuse(name, "Must be a JSON object.")
        return value


def json_of(name: str, text: str) -> Any:
    """Parse the JSON of a field as that of a body; raises InvalidRequestError about the field."""
    try:
        return parsed_json(text)
    except ValueError as error:
        refuse(name, str(error))


def refuse(name: str, message: str) -> NoReturn:
    """Raise InvalidRequestError about a field."""
    raise InvalidRequestError.of_faults(Detail(pointer=name, message=message))


def form() -> Fields:
    """Return the form of the current action."""
    return Fields(request.form)


def query() -> Fields:
    """Return the query of the current page."""
    return Fields(request.args)


def given_values(names: Collection[str]) -> dict[str, str]:
    """Return the filters of the address that have a value."""
    return {name: text for name in names if (text := query().text(name))}


def change() -> AuditedChange:
    """Return the change of the current action: its actor, and the ETag in its form as the condition."""
    tag = request.form.get(ETAG)
    return AuditedChange(actor(), Condition(match=StateTag(tag) if tag else None))
