"""/search."""

from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.features.search import hits
from app.features.search.hits import MAX_WORD, HitKind, Matched
from app.kernel.described_fields import answered, described
from app.web.http.request_fields import Body
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("search", "Search by a word that may be an id, a name, a key, a label, a host or a target.")


class Word(fields.String):
    """A word without spaces around it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs).strip()
        if not 1 <= len(text) <= MAX_WORD:
            raise ValidationError(f"Must have 1 to {MAX_WORD} characters.")
        return text


class SearchQuery(Body):
    q = Word(
        required=True,
        **described(
            "an id, an idempotency key or a name; a part of the name of an endpoint, schedule, "
            "workflow, payload spec, config, secret or rule; a label such as `team=billing`; a part of a URL, target "
            "or host",
            example="charge",
        ),
    )


class HitSchema(Schema):
    """A row that matches."""

    kind = fields.Enum(HitKind, by_value=True, **answered(example=HitKind.ENDPOINT.value))
    id = fields.String(**answered("id or name", example="charge-card"))
    title = fields.String(
        **answered("name, endpoint, host, URL or state", null=True, example="https://api.pay.example/charge")
    )
    matched = fields.Enum(Matched, by_value=True, **answered("field that matches", example=Matched.NAME.value))


class HitsSchema(Schema):
    """Rows that match, whole matches first."""

    items = fields.List(fields.Nested(HitSchema), required=True)


@resource.route("GET", "/search", query=SearchQuery, returns=HitsSchema)
def find(query: dict[str, Any]) -> dict[str, Any]:
    """Search all tables by their indexes, at most 10 rows of a kind and field.

    Parts of names are compared for the first 2,000 names of a table, and for the 2,000 newest schedules and workflows.
    """
    return {"items": hits.hits(services().database, query["q"])}
