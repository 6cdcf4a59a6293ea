"""OpenAPI document: built by flask-smorest from the resources, at /openapi.json."""

import threading
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


class LazyApi(Api):  # type: ignore[misc] # flask-smorest has no types
    """API whose document describes the resources at its first use.

    Descriptions take a fifth of a start-up, and most processes never serve the document.
    """

    def __init__(self) -> None:
        self._document: Any = None  # an APISpec once the application is known
        self.undescribed: Sequence[Resource] = ()
        self._lock = threading.RLock()  # two threads may build the document at once
        super().__init__()

    @property
    def spec(self) -> Any:
        """Return the document with all resources."""
        with self._lock:
            resources, self.undescribed = self.undescribed, ()
            if resources:
                self._describe(resources)
            return self._document

    @spec.setter
    def spec(self, document: Any) -> None:
        self._document = document

    def _describe(self, resources: Sequence[Resource]) -> None:
        from app.web.openapi.description import described, error_responses_of  # noqa: PLC0415 - see the class

        responses = {name: each for resource in resources for name, each in error_responses_of(resource).items()}
        for name in sorted(responses):
            self._document.components.response(name, responses[name])
        for resource in resources:
            blueprint = described(resource)
            blueprint.register_views_in_doc(self, self._app, self._document, name=resource.name, parameters=None)
            self._document.tag({"name": resource.name, "description": resource.description})
            self._describe_alternatives()

    def _describe_alternatives(self) -> None:
        """Describe schemas that need one of several sets of fields."""
        for key, name in self.ma_plugin.converter.refs.items():
            needed = getattr(key[0], "NEEDED", None)
            schema = self._document.components.schemas[name]
            if needed is not None and "anyOf" not in schema:
                schema.pop("required", None)
                schema["anyOf"] = [{"required": list(names)} for names in needed]


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Register the resources in the application and in the document."""
    app.config["API_TITLE"] = "Task Executor"
    app.config["API_VERSION"] = version()
    app.config["OPENAPI_VERSION"] = "3.1.0"
    app.config["OPENAPI_URL_PREFIX"] = "/"
    app.config["OPENAPI_JSON_PATH"] = PATH.removeprefix("/")
    app.config["API_SPEC_OPTIONS"] = {"info": {"description": _description()}}
    api: Any = LazyApi()
    api.ERROR_SCHEMA = ErrorSchema
    api.DEFAULT_ERROR_RESPONSE_NAME = None  # each operation lists its own
    api.init_app(app)
    api.ma_plugin.converter.add_attribute_function(any_of.describe)
    api.spec.components.security_scheme("api_key", {"type": "http", "scheme": "bearer"})
    for resource in resources:
        app.register_blueprint(resource.blueprint)
    api.undescribed = resources


def _description() -> str:
    """Describe the service, and the errors that belong to no operation."""
    lines = [_DESCRIPTION, "", "A request that reaches no operation is answered in the same envelope:", ""]
    for status in _BEFORE_ANY_OPERATION:
        code, message = http_error(status)
        lines.append(f"- {status} `{code}`: {message}")
    return "\n".join([*lines, "", "Every answer carries its `X-Request-ID`."])
