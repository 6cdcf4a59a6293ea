"""Swagger UI of the OpenAPI document at /docs, from a bundled package, so that the page needs no other host."""

from pathlib import Path

import flask_swagger_ui
from flask import Blueprint, Flask, Response, send_from_directory

from app.kernel.errors import NotFoundError
from app.web.openapi import document

NAME = "docs"
PATH = "/docs"

_DIST = Path(flask_swagger_ui.__file__).parent / "dist"
_ASSETS = frozenset({"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"})
_ASSET_SECONDS = 3600
# Swagger UI sets inline styles and has data-URL icons in its style sheet; scripts come from this host only.
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Task Executor API</title>
<link rel="stylesheet" href="{PATH}/swagger-ui.css">
<link rel="icon" type="image/png" href="{PATH}/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{PATH}/swagger-ui-bundle.js"></script>
<script src="{PATH}/start.js"></script>
</body>
</html>
"""
# A key entered under "Authorize" stays in the page's memory, and no external validator gets the document.
_START = f"""SwaggerUIBundle({{
  url: "{document.PATH}",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
}});
"""

blueprint = Blueprint(NAME, __name__)


def register(app: Flask) -> None:
    """Serve the page and its assets without a key, like the document."""
    app.register_blueprint(blueprint)


@blueprint.get(PATH)
def page() -> Response:
    return Response(_PAGE, mimetype="text/html")


@blueprint.get(f"{PATH}/start.js")
def start() -> Response:
    """Serve the script that starts Swagger UI; the security policy allows no inline script."""
    return Response(_START, mimetype="text/javascript")


@blueprint.get(f"{PATH}/<asset>")
def asset(asset: str) -> Response:
    if asset not in _ASSETS:
        raise NotFoundError("There is nothing at this path.")
    return send_from_directory(_DIST, asset, max_age=_ASSET_SECONDS)


@blueprint.after_request
def protect(response: Response) -> Response:
    response.headers.update(_SECURITY)
    return response
