"""/payload-specs, /configs and /secrets: named values to which endpoints refer."""

from collections.abc import Sequence
from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS, NamedTable
from app.kernel.errors import ConflictError, InvalidSchemaError, TaskExecutorError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name, SecretName
from app.web.openapi.resource import Resource, same_name
from app.web.services import secret_box, services

# The scrubbing of answers could not tell a shorter secret from other text.
MIN_SECRET, MAX_SECRET = 4, 8_192

Field = fields.Field[Any]


def _add_operations(
    resource: Resource,
    table: NamedTable,
    *,
    name: type[Name] = Name,
    shown: Field | None,
    given: Field,
    replacing: str,
    errors: Sequence[type[TaskExecutorError]] = (),
) -> None:
    """Register the operations of a table, with the field of its value in answers and in requests.

    `replacing` describes PUT. The values of a hidden table are secrets, which are encrypted.
    """
    path, noun = f"/{resource.name}", table.noun
    title = "".join(word.capitalize() for word in noun.split())
    value = {} if shown is None else {"value": shown}
    instants = {"created_at": Instant(required=True), "updated_at": Instant(required=True)}
    schema = Schema.from_dict({"name": name(required=True), **value, **instants}, name=f"{title}Schema")
    new = Body.from_dict({"name": name(required=True), "value": given}, name=f"New{title}Schema")
    changed = Body.from_dict({"name": name(), "value": given}, name=f"Changed{title}Schema")

    def stored(body: dict[str, Any]) -> Any:
        return secret_box().encrypt(body["value"]) if table.is_hidden else body["value"]

    def create(body: dict[str, Any]) -> Any:
        row = table.create(services().database, body["name"], stored(body), change())
        return tagged(row, row.tag, 201)

    def list_(query: dict[str, Any]) -> dict[str, Any]:
        return page_answer(table.page(services().database, page_request(query)), query)

    def get(name: str) -> Any:
        row = table.get(services().database, name)
        return unless_known(row, row.tag)

    def replace(body: dict[str, Any], name: str) -> Any:
        same_name(body, name)
        row = table.replace(services().database, name, stored(body), change())
        return tagged(row, row.tag)

    def delete(name: str) -> None:
        table.delete(services().database, name, change())

    create.__doc__, list_.__doc__, get.__doc__ = f"Create a {noun}.", f"List {noun}s, newest first.", f"Get a {noun}."
    replace.__doc__ = replacing
    delete.__doc__ = f"Delete a {noun}; refused while an endpoint or an unfinished job uses it."
    one, missing = f"{path}/<name>", table.not_found
    resource.route("POST", path, body=new, returns=schema, status=201, errors=[ConflictError, *errors])(create)
    resource.route("GET", path, query=PageQuery, returns=page_schema(schema))(list_)
    resource.route("GET", one, returns=schema, errors=[missing])(get)
    resource.route("PUT", one, body=changed, returns=schema, errors=[missing, *errors])(replace)
    resource.route("DELETE", one, returns=None, status=204, errors=[missing, ConflictError])(delete)


_SCHEMA: Any = {"required": True, "data_key": "schema"}
_SCHEMA["metadata"] = {"description": "JSON Schema 2020-12", "type": "object"}
payload_specs = Resource("payload-specs", "JSON Schemas that the input of jobs must match.", is_tagged=True)
_add_operations(
    payload_specs,
    PAYLOAD_SPECS,
    shown=fields.Raw(**_SCHEMA),
    given=fields.Raw(allow_none=True, **_SCHEMA),  # so that the faults of any JSON are reported as INVALID_SCHEMA
    replacing="Replace the schema of a payload spec, for jobs created from now on.",
    errors=[InvalidSchemaError],
)

configs = Resource("configs", "Static values that endpoints refer to as {{config.*}}.", is_tagged=True)
_VALUES = fields.Dict(required=True, data_key="values")
_add_operations(
    configs,
    CONFIGS,
    shown=_VALUES,
    given=_VALUES,
    replacing="""Replace the values of a config, for executions that have not begun.

    An execution that has begun keeps the values of its first attempt; a manual retry uses the new values.
    """,
)

secrets = Resource(
    "secrets", "Sensitive values that endpoints refer to as {{secret.*}}; never shown again.", is_tagged=True
)
_LENGTH = validate.Length(MIN_SECRET, MAX_SECRET, error="Must have {min} to {max} characters.")
_add_operations(
    secrets,
    SECRETS,
    name=SecretName,
    shown=None,
    given=fields.String(required=True, load_only=True, validate=_LENGTH),
    replacing="Rotate a secret; workers use the new value from their next claim on.",
)


def _check_enabled() -> None:
    """Refuse every operation: a service without an encryption key must not appear to have no secrets."""
    secret_box()


secrets.blueprint.before_request(_check_enabled)
