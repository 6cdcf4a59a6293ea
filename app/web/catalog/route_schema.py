"""Schema of a route."""

from marshmallow import RAISE, Schema, fields

from app.catalog.endpoints.live_settings_fields import FullMatch, queue_field
from app.kernel.config import ROUTE_PATTERN

_PATTERN = "Must be 1 to 128 lower-case letters, digits, hyphens, underscores, * and ?."


class RouteSchema(Schema):
    """A route: a pattern of endpoint names, and their queue."""

    class Meta:
        """Refuse unknown fields."""

        unknown = RAISE

    pattern = fields.String(
        required=True,
        validate=FullMatch(ROUTE_PATTERN, error=_PATTERN),
        metadata={"description": "`*` matches any number of characters, `?` one character", "example": "billing-*"},
    )
    queue = queue_field(required=True, metadata={"example": "bulk"})
