"""The OpenAPI document, made by flask-smorest from the resources, at /openapi.json."""

from collections.abc import Sequence
from typing import Any

from flask import Flask
from flask_smorest import Api

from app.catalog.specs import TITLES
from app.kernel.version import version
from app.web.http.error_envelope import ErrorSchema, http_error
from app.web.openapi import any_of
from app.web.openapi.resource import Resource

PATH = "/openapi.json"
_DESCRIPTION = f"setTimeout and setInterval as a service: durable deliveries to {TITLES}."
_BEFORE_ANY_OPERATION = (404, 405, 408, 414, 431)


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Register the resources in the application and in the document."""
    app.config["API_TITLE"] = "Task Executor"
    app.config["API_VERSION"] = version()
    app.config["OPENAPI_VERSION"] = "3.1.0"
    app.config["OPENAPI_URL_PREFIX"] = "/"
    app.config["OPENAPI_JSON_PATH"] = PATH.removeprefix("/")
    app.config["API_SPEC_OPTIONS"] = {"info": {"description": _description()}}
    api: Any = Api()
    api.ERROR_SCHEMA = ErrorSchema
    api.DEFAULT_ERROR_RESPONSE_NAME = None  # each operation lists its own
    api.init_app(app)
    api.ma_plugin.converter.add_attribute_function(any_of.describe)
    api.spec.components.security_scheme("api_key", {"type": "http", "scheme": "bearer"})
    responses = {name: described for resource in resources for name, described in resource.error_responses.items()}
    for name in sorted(responses):
        api.spec.components.response(name, responses[name])
    for resource in resources:
        api.register_blueprint(resource.blueprint)


def _description() -> str:
    """Describe the service, and the errors that belong to no operation."""
    lines = [_DESCRIPTION, "", "A request that reaches no operation is answered in the same envelope:", ""]
    for status in _BEFORE_ANY_OPERATION:
        code, message = http_error(status)
        lines.append(f"- {status} `{code}`: {message}")
    return "\n".join([*lines, "", "Every answer carries its `X-Request-ID`."])
