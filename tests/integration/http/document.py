"""OpenAPI document as a test oracle: each answer in the tests must match the document.

An error's schema lists the codes that the operation may answer with that status, so another code fails here too.
"""

from functools import cache
from typing import Any
from urllib.parse import quote

from flask import Flask
from jsonschema_rs import Draft202012Validator, Registry
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect, Rule
from werkzeug.test import TestResponse

from app.features import FEATURES
from app.kernel.config import Settings
from app.web.application import create_app

_DOCUMENT = "urn:openapi"


def application() -> Flask:
    """Return an application with default settings, built once for the features of FEATURES, which takes a while."""
    return _application(len(FEATURES))


@cache
def _application(_features: int) -> Flask:
    return create_app(Settings(database_url="postgresql://nobody@127.0.0.1:1/none"))


def document() -> dict[str, Any]:
    """Return the document of an application with all features, to which a test may have added one."""
    return _document(application())


@cache
def _document(app: Flask) -> dict[str, Any]:
    found: dict[str, Any] = app.test_client().get("/openapi.json").json
    return found


def check(app: Flask, response: TestResponse) -> None:
    """Fail unless the document describes this answer to this request; ignores answers to unknown paths."""
    request = response.request
    try:
        rule, _ = app.url_map.bind("localhost").match(request.path, request.method, return_rule=True)
    except (HTTPException, RequestRedirect):
        return
    if request.method in {"HEAD", "OPTIONS"} or not is_operation(rule):
        return
    path = rule.rule.replace("<", "{").replace(">", "}")
    described = document()["paths"][path][request.method.lower()]["responses"]
    status = str(response.status_code)
    assert status in described, f"{request.method} {path} answered {status}, which is not in the document"
    if (response.mimetype or "").startswith("text/"):
        assert response.mimetype in {type_.partition(";")[0] for type_ in described[status]["content"]}
    elif response.data:
        faults = list(validator(path, request.method.lower(), status).iter_errors(response.json))
        assert faults == [], f"{request.method} {path} {status}: {faults[0].message}"


def is_operation(rule: Rule) -> bool:
    """Return whether the document describes a route: all except the document itself, /docs and /console."""
    return rule.rule != "/openapi.json" and not rule.endpoint.startswith(("console.", "docs."))


@cache
def validator(path: str, method: str, status: str) -> Draft202012Validator:
    """Return the validator of an answer. It is written in Rust: Python's took a sixth of the time of the tests."""
    escaped = path.replace("~", "~0").replace("/", "~1")
    place = f"/paths/{escaped}/{method}/responses/{status}"
    place = document()["paths"][path][method]["responses"][status].get("$ref", f"#{place}").removeprefix("#")
    schema = f"{_DOCUMENT}#{quote(place)}/content/application~1json/schema"
    return Draft202012Validator({"$ref": schema}, registry=_registry(application()))


@cache
def _registry(app: Flask) -> Registry:
    return Registry([(_DOCUMENT, _document(app))])
