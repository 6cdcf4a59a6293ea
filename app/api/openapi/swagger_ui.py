"""Swagger UI over the OpenAPI document, at /docs: from a bundled package, so that the page needs no other host."""

from pathlib import Path

import flask_swagger_ui
from flask import Blueprint, Flask, Response, send_from_directory

from app.api.openapi import document
from app.errors import NotFoundError

NAME = "docs"
PATH = "/docs"

_DIST = Path(flask_swagger_ui.__file__).parent / "dist"
_ASSETS = frozenset({"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"})
_ASSET_SECONDS = 3600
# Swagger UI sets inline styles and holds its icons in the style sheet; scripts come from files of ours only.
_POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self' 'unsafe-inline'", "img-src 'self' data:"),
        *("connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
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
# The key that "Authorize" asks for stays in the page's memory, and no validator of another host sees the document.
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
    """Serve the page and what it is made of; no key needed, like the document that it shows."""
    app.register_blueprint(blueprint)


@blueprint.get(PATH)
def page() -> Response:
    """Show the page."""
    return Response(_PAGE, mimetype="text/html")


@blueprint.get(f"{PATH}/start.js")
def start() -> Response:
    """Start Swagger UI: a file, since the policy allows no inline script."""
    return Response(_START, mimetype="text/javascript")


@blueprint.get(f"{PATH}/<asset>")
def asset(asset: str) -> Response:
    """Serve a file of the package."""
    if asset not in _ASSETS:
        raise NotFoundError("There is nothing at this path.")
    return send_from_directory(_DIST, asset, max_age=_ASSET_SECONDS)


@blueprint.after_request
def protect(response: Response) -> Response:
    """Keep the page to itself."""
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
