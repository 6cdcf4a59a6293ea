"""OpenAPI document, at /openapi.json."""

import threading
from collections.abc import Sequence
from typing import Any

from flask import Flask, Response, current_app

from app.web.openapi.resource import Resource

PATH = "/openapi.json"
EXTENSION = "te-document"


class ApiDocument:
    """Document of an application, built at its first use.

    It needs a second and three packages, and most processes never serve it.
    """

    def __init__(self, app: Flask, resources: Sequence[Resource]) -> None:
        self._app = app
        self._resources = resources
        self._built: Any = None
        self._lock = threading.Lock()  # two threads may build the document at once

    def build(self) -> Any:
        """Return the document with all resources, an APISpec, which the commands of flask-smorest find then, too."""
        from app.web.openapi.description import document_of  # noqa: PLC0415 - see the class

        with self._lock:
            if self._built is None:
                self._built = document_of(self._app, self._resources)
            return self._built


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Register the resources in the application, and serve their document."""
    for resource in resources:
        app.register_blueprint(resource.blueprint)
    app.extensions[EXTENSION] = ApiDocument(app, resources)
    app.add_url_rule(PATH, EXTENSION, _serve)


def _serve() -> Response:
    text = current_app.json.dumps(current_app.extensions[EXTENSION].build().to_dict(), indent=2)
    return Response(text, mimetype="application/json")
