"""/secrets."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.named_table import SECRETS, Named
from app.kernel.errors import ConflictError, SecretNotFoundError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, SecretName
from app.web.openapi.resource import Resource, same_name
from app.web.services import secret_box, services

MIN_VALUE = 4
MAX_VALUE = 8_192

resource = Resource(
    "secrets", "Sensitive values that endpoints refer to as {{secret.*}}; never shown again.", is_tagged=True
)


# For every operation: a service without an encryption key must not appear to have no secrets.
def _check_enabled() -> None:
    secret_box()


resource.blueprint.before_request(_check_enabled)


def _value() -> fields.String:
    """Return the field of a value; the scrubbing of answers could not tell a shorter value from other text."""
    length = validate.Length(MIN_VALUE, MAX_VALUE, error="Must have {min} to {max} characters.")
    return fields.String(required=True, load_only=True, validate=length)


class SecretSchema(Schema):
    """A secret."""

    name = SecretName(required=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class NewSecretSchema(Body):
    """A secret to create."""

    name = SecretName(required=True)
    value = _value()


class ChangedSecretSchema(Body):
    """New value of a secret; `name`, if given, must be the name in the path."""

    name = SecretName()
    value = _value()


@resource.route("POST", "/secrets", body=NewSecretSchema, returns=SecretSchema, status=201, errors=[ConflictError])
def create(body: dict[str, Any]) -> Any:
    """Create a secret."""
    row = SECRETS.create(services().database, body["name"], secret_box().encrypt(body["value"]), change())
    return tagged(_shape(row), row.tag, 201)


@resource.route("GET", "/secrets", query=PageQuery, returns=page_schema(SecretSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List secrets, newest first."""
    page = SECRETS.page(services().database, page_request(query))
    return page_answer(page, _shape, query)


@resource.route("GET", "/secrets/<name>", returns=SecretSchema, errors=[SecretNotFoundError])
def get(name: str) -> Any:
    """Get a secret."""
    row = SECRETS.get(services().database, name)
    return unless_known(_shape(row), row.tag)


@resource.route("PUT", "/secrets/<name>", body=ChangedSecretSchema, returns=SecretSchema, errors=[SecretNotFoundError])
def replace(body: dict[str, Any], name: str) -> Any:
    """Rotate a secret; workers use the new value from their next claim on."""
    same_name(body, name)
    row = SECRETS.replace(services().database, name, secret_box().encrypt(body["value"]), change())
    return tagged(_shape(row), row.tag)


@resource.route("DELETE", "/secrets/<name>", returns=None, status=204, errors=[SecretNotFoundError, ConflictError])
def delete(name: str) -> None:
    """Delete a secret; refused while an endpoint or an unfinished job uses it."""
    SECRETS.delete(services().database, name, change())


def _shape(row: Named) -> dict[str, Any]:
    return {"name": row.name, "created_at": row.created_at, "updated_at": row.updated_at}
