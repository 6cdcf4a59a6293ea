"""Rendered request: the request of the next attempt of an execution, without its secrets.

Sent requests are not stored, so it is rendered again: with the version of the endpoint and the revision of the
configs that all attempts of the execution have, and with a word for each secret. Beside it are the callbacks, which the
version and the job name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.catalog import superseded_configs
from app.catalog.endpoints import callback_targets
from app.catalog.specs import compile_spec
from app.catalog.templates.nodes import SpecTemplate
from app.kernel.db import Database
from app.kernel.errors import ExecutionNotFoundError, TemplateError
from app.kernel.sql import statement
from schema.states import CallbackEvent, EndpointType

REQUEST = statement(
    "executions.request",
    """
    SELECT e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.scheduled_at, e.attempt_count, e.config_revision,
           j.input, j.callbacks AS own_callbacks, j.callback_of, v.endpoint_type, v.spec, v.config_ref,
           v.callbacks AS callbacks_of_version, n.version AS newest_version,
           (SELECT revision FROM catalog_revision WHERE id = 'catalog') AS catalog_revision
      FROM executions AS e
      JOIN jobs AS j ON j.job_id = e.job_id
      JOIN endpoints AS n ON n.name = e.endpoint
      LEFT JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
     WHERE e.execution_id = :execution_id
    """,
)
_STAND_IN = "te0stands0in0for0secret0"  # possible in a host


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRequest:
    """A request without secrets; `spec` is None, and `fault` says why, if it cannot be rendered.

    `callback_of` is the execution whose end the job reports; None if its job is no callback.
    """

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: EndpointType | None
    endpoint_version: int
    newest_version: int
    config: str | None
    config_revision: int | None
    idempotency_key: str
    scheduled_at: datetime
    secrets: list[str]
    spec: dict[str, Any] | None
    fault: str | None
    callbacks: Mapping[CallbackEvent, str]
    callback_of: str | None


def request_of(database: Database, execution_id: str) -> NextRequest:
    """Render the request of an execution; raises ExecutionNotFoundError."""
    rows = database.fetch(REQUEST, {"execution_id": execution_id})
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    row = rows[0]
    secrets, spec, fault = list[str](), None, None
    try:
        template = _template(row.endpoint_type, row.spec)
        secrets = sorted(template.secret_refs)
        revision = row.catalog_revision if row.config_revision is None else row.config_revision
        spec = masked(template, row.input, _config(database, row.config_ref, revision))
    except TemplateError as error:
        fault = error.message
    return NextRequest(
        execution_id=row.execution_id,
        job_id=row.job_id,
        endpoint=row.endpoint,
        endpoint_type=None if row.endpoint_type is None else EndpointType(row.endpoint_type),
        endpoint_version=row.endpoint_version,
        newest_version=row.newest_version,
        config=row.config_ref,
        config_revision=row.config_revision,
        idempotency_key=row.execution_id,
        scheduled_at=row.scheduled_at,
        secrets=secrets,
        spec=spec,
        fault=fault,
        callbacks=callback_targets.merged(row.callbacks_of_version, row.own_callbacks),
        callback_of=row.callback_of,
    )


def masked(template: SpecTemplate, input_: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Render a spec with `[secret NAME]` for each secret; raises TemplateError."""
    names = {f"{_STAND_IN}{number}0": name for number, name in enumerate(sorted(template.secret_refs))}
    stand_ins = {name: stand_in for stand_in, name in names.items()}
    try:
        rendered = template.render(input_, config, stand_ins)
    except RecursionError:
        raise TemplateError("The input is nested too deeply.") from None
    found: dict[str, Any] = _named(rendered, names)
    return found


def _named(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for stand_in, name in names.items():
            value = value.replace(stand_in, f"[secret {name}]")
        return value
    if isinstance(value, Mapping):
        return {_named(key, names): _named(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_named(each, names) for each in value]
    return value


def _template(type_: str | None, spec: Any) -> SpecTemplate:
    if type_ is None:
        raise TemplateError("The version of its endpoint does not exist.")
    try:
        return compile_spec(EndpointType(type_), spec)
    except TemplateError:
        raise
    except Exception as error:  # noqa: BLE001 - a row may hold anything
        raise TemplateError(f"The stored version of its endpoint cannot be read: {error}.") from None


def _config(database: Database, name: str | None, revision: int) -> Mapping[str, Any]:
    if name is None:
        return {}
    rows = database.fetch(superseded_configs.AS_OF, {"name": name, "revision": revision})
    if not rows:
        raise TemplateError(f"The config {name!r} does not exist.")
    values: Mapping[str, Any] = rows[0].values_json
    return values
