"""Description of the operations of a resource by flask-smorest, for the OpenAPI document."""

from typing import Any

from flask_smorest import Blueprint

from app.kernel.function_types import AnyFunction
from app.web.http import conditions
from app.web.http.body import PARSER
from app.web.http.idempotent_requests import REPLAYED_DOC
from app.web.openapi import error_responses, examples
from app.web.openapi.operation import Operation
from app.web.openapi.resource import Resource


def described(resource: Resource) -> Any:
    """Return a blueprint with descriptions of the operations; `resource.blueprint` serves requests."""
    blueprint: Any = Blueprint(resource.name, __name__, description=resource.description)
    blueprint.ARGUMENTS_PARSER = PARSER
    for name, (operation, view) in resource.operations.items():
        path, methods = operation.path, [operation.method]
        operation_id = f"{resource.name}_{name.strip('_')}".replace("-", "_")
        layers = [*_layers(operation, blueprint), blueprint.doc(**_doc(operation), operationId=operation_id)]
        wrapped = view
        for layer in layers:
            wrapped = layer(wrapped)
        blueprint.route(path, methods=methods, endpoint=name, parameters=examples.of_path(path))(wrapped)
    return blueprint


def error_responses_of(resource: Resource) -> dict[str, Any]:
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
        *([blueprint.arguments(query(), location="query")] if query is not None else []),
        *([blueprint.arguments(body(), examples=examples.of(body))] if body is not None else []),
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
