"""OpenAPI document: built by flask-smorest from the resources, at /openapi.json."""

import threading
from collections.abc import Sequence
from typing import Any

from flask import Flask
from flask_smorest import Api, Blueprint

from app.catalog.specs import TITLES
from app.kernel.version import version
from app.web.http.error_envelope import ErrorSchema, http_error
from app.web.openapi import any_of
from app.web.openapi.resource import Resource

PATH = "/openapi.json"
_DESCRIPTION = f"setTimeout and setInterval as a service: durable deliveries to {TITLES}."
_BEFORE_ANY_OPERATION = (404, 405, 408, 414, 431)


class LazyApi(Api):  # type: ignore[misc] # flask-smorest has no types
    """API whose document describes the blueprints at its first use.

    Describing them takes three quarters of a start-up, and most processes never serve the document.
    """

    def __init__(self) -> None:
        self._document: Any = None  # an APISpec once the application is known
        self._undescribed: list[Blueprint] = []
        self._lock = threading.RLock()  # two threads may build the document at once
        super().__init__()

    @property
    def spec(self) -> Any:
        """Return the document with all blueprints."""
        with self._lock:
            while self._undescribed:
                blueprint = self._undescribed.pop(0)
                blueprint.register_views_in_doc(self, self._app, self._document, name=blueprint.name, parameters=None)
                self._document.tag({"name": blueprint.name, "description": blueprint.description})
                self._describe_alternatives()
            return self._document

    @spec.setter
    def spec(self, document: Any) -> None:
        self._document = document

    def _describe_alternatives(self) -> None:
        """Describe schemas that need one of several sets of fields."""
        for key, name in self.ma_plugin.converter.refs.items():
            needed = getattr(key[0], "NEEDED", None)
            described = self._document.components.schemas[name]
            if needed is not None and "anyOf" not in described:
                described.pop("required", None)
                described["anyOf"] = [{"required": list(names)} for names in needed]

    def register_blueprint(self, blueprint: Blueprint) -> None:
        """Register the views of a blueprint now, and its description later."""
        self._app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        self._app.register_blueprint(blueprint)
        self._undescribed.append(blueprint)


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
