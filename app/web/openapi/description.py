"""Description of the operations of all resources by flask-smorest, for the OpenAPI document."""

from collections.abc import Sequence
from typing import Any

from flask import Flask
from flask_smorest import Api, Blueprint

from app.catalog.specs import TITLES
from app.kernel.function_types import AnyFunction
from app.kernel.version import version
from app.web.http import conditions
from app.web.http.error_envelope import ErrorSchema, http_error
from app.web.http.idempotent_requests import REPLAYED_DOC
from app.web.openapi import any_of, error_responses, examples
from app.web.openapi.operation import Operation
from app.web.openapi.resource import Resource

_ABOUT = f"setTimeout and setInterval as a service: durable deliveries to {TITLES}."
_BEFORE_ANY_OPERATION = (404, 405, 408, 414, 431)


class _Api(Api):  # type: ignore[misc] # flask-smorest has no types
    """API that describes an application, and serves nothing."""

    ERROR_SCHEMA = ErrorSchema
    DEFAULT_ERROR_RESPONSE_NAME = None  # each operation lists its own

    def _register_error_handlers(self) -> None:
        """Leave errors to the handlers of the application."""


def document_of(app: Flask, resources: Sequence[Resource]) -> Any:
    title = {"title": "Task Executor", "version": version(), "openapi_version": "3.1.0"}
    api: Any = _Api(app, spec_kwargs={**title, "info": {"description": _description()}})
    api.ma_plugin.converter.add_attribute_function(any_of.describe)
    components = api.spec.components
    components.security_scheme("api_key", {"type": "http", "scheme": "bearer"})
    responses = {name: each for resource in resources for name, each in _error_responses_of(resource).items()}
    for name in sorted(responses):
        components.response(name, responses[name])
    for resource in resources:
        blueprint = _described(resource)
        blueprint.register_views_in_doc(api, app, api.spec, name=resource.name, parameters=None)
        api.spec.tag({"name": resource.name, "description": resource.description})
        _describe_alternatives(api.ma_plugin.converter.refs, components.schemas)
    return api.spec


def _description() -> str:
    """Describe the service, and the errors that belong to no operation."""
    lines = [_ABOUT, "", "A request that reaches no operation is answered in the same envelope:", ""]
    for status in _BEFORE_ANY_OPERATION:
        code, message = http_error(status)
        lines.append(f"- {status} `{code}`: {message}")
    return "\n".join([*lines, "", "Every answer carries its `X-Request-ID`."])


def _describe_alternatives(names: Any, schemas: Any) -> None:
    """Describe schemas that need one of several sets of fields."""
    for key, name in names.items():
        needed = getattr(key[0], "NEEDED", None)
        schema = schemas[name]
        if needed is not None and "anyOf" not in schema:
            schema.pop("required", None)
            schema["anyOf"] = [{"required": list(each)} for each in needed]


def _described(resource: Resource) -> Any:
    """Return a blueprint with descriptions of the operations; `resource.blueprint` serves requests."""
    blueprint: Any = Blueprint(resource.name, __name__, description=resource.description)
    for name, (operation, view) in resource.operations.items():
        path, methods = operation.path, [operation.method]
        operation_id = f"{resource.name}_{name.strip('_')}".replace("-", "_")
        layers = [*_layers(operation, blueprint), blueprint.doc(**_doc(operation), operationId=operation_id)]
        wrapped = view
        for layer in layers:
            wrapped = layer(wrapped)
        blueprint.route(path, methods=methods, endpoint=name, parameters=examples.of_path(path))(wrapped)
    return blueprint


def _error_responses_of(resource: Resource) -> dict[str, Any]:
    """Return the responses for errors of all operations, by name."""
    return {
        name: error_responses.response_of(status, errors)
        for operation, _ in resource.operations.values()
        for status, (name, errors) in error_responses.names_of(operation.possible_errors()).items()
    }


def _layers(operation: Operation, blueprint: Any) -> list[AnyFunction]:
    """Return flask-smorest's decorators for answers and arguments, from the innermost on."""
    texts, body, query, returns = [*operation.texts], operation.body, operation.query, operation.returns
    has_tag = operation.is_tagged and returns is not None and (operation.takes_condition or operation.method == "POST")
    headers = {**(conditions.ETAG if has_tag else {}), **(REPLAYED_DOC if operation.is_keyed else {})} or None
    replayed = REPLAYED_DOC if operation.key is not None else None
    shown: dict[str, Any] = {"schema": returns, "examples": examples.of(returns)}
    if texts and returns is None:
        shown = texts.pop(0)
    return [
        blueprint.response(operation.status, **shown, headers=headers),
        *(blueprint.alt_response(other, **shown, headers=replayed, success=True) for other in operation.also),
        *(blueprint.alt_response(operation.status, **each, success=True) for each in texts),
        *([blueprint.arguments(query(), location="query", error_status_code=400)] if query is not None else []),
        *([blueprint.arguments(body(), examples=examples.of(body), error_status_code=400)] if body is not None else []),
    ]


def _doc(operation: Operation) -> dict[str, Any]:
    """Describe errors, security, and parameters in headers."""
    names = error_responses.names_of(operation.possible_errors())
    doc: dict[str, Any] = {"responses": {str(status): name for status, (name, _) in names.items()}}
    if not operation.is_public:
        doc["security"] = [{"api_key": []}]
    condition = conditions.IF_NONE_MATCH if operation.method == "GET" else conditions.IF_MATCH
    headers = (operation.key, condition if operation.takes_condition else None, operation.header)
    parameters = [each for each in headers if each is not None]
    if parameters:
        # `parameters` replaces the description derived from the query's schema, so it repeats the schema.
        doc["parameters"] = [
            *([{"in": "query", "schema": operation.query()}] if operation.query is not None else []),
            *parameters,
        ]
    doc["responses"] |= conditions.UNCHANGED if operation.takes_condition and operation.method == "GET" else {}
    return doc
