"""Forms that begin a bulk operation or a redrive: their bodies, and the number that a person types."""

from typing import Any

from marshmallow import Schema, ValidationError

from app.console.http.forms import Fields, form, refuse
from app.console.views.typed_count import is_typed
from app.kernel.errors import InvalidRequestError
from app.web.http.body import details_of, invalid

MAX_WANTED = 20_000  # characters of a filter in JSON
RATE = 100  # of a bulk operation


def loaded(schema: Schema, values: dict[str, Any]) -> dict[str, Any]:
    """Load a body as the API does; raises InvalidRequestError."""
    try:
        body: dict[str, Any] = schema.load(values)
    except ValidationError as error:
        raise invalid(details_of(error.messages, in_body=True)) from None
    return body


def faults_of(error: InvalidRequestError) -> dict[str, str]:
    """Return the faults of a body by field."""
    return {each["pointer"].rpartition("/")[2]: each["message"] for each in error.details}


def rate_of(fields: Fields, default: int) -> int:
    """Return the rate of a form or an address; raises InvalidRequestError."""
    return fields.whole("rate", default, least=1, most=10_000)


def check_typed() -> None:
    """Refuse a form about many rows without their number."""
    shown = form().whole("shown", 0, least=0, most=10**9)
    is_needed = is_typed(shown, is_complete=not form().flag("more"))
    if is_needed and form().text("typed").replace(",", "") != str(shown):
        refuse("typed", f"Type {shown} to confirm that so many are meant.")
