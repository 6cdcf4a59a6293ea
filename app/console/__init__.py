"""The console at /console: pages for people, above the features; see README.md."""

from collections.abc import Sequence

from flask import Blueprint, Flask

from app.console.access import guard
from app.console.access.permission import Permissions
from app.console.http import actions, error_pages, page_rendering, page_request, response_headers, static_files
from app.console.http.console_page import PAGES_OF
from app.console.live import pulse
from app.console.pages import all_pages, sign_in_page, time_zone_page
from app.console.pages.list_exports import EXPORTS
from app.features import FEATURES
from app.web.openapi.resource import Resource

NAME = "console"
PUBLIC = frozenset({static_files.ROUTE, *sign_in_page.PUBLIC})


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Add the console to an application that has the resources of the API."""
    permissions = Permissions(app, resources)
    pages = all_pages()
    app.extensions[PAGES_OF] = pages
    page_rendering.add_templates(FEATURES)
    page_request.register(app, resources)
    blueprint = Blueprint(NAME, __name__, url_prefix="/console")
    by_itself = frozenset({pulse.ROUTE, *(page.typing_route for page in pages)})
    guard.register(blueprint, permissions, public=PUBLIC, by_itself=by_itself)
    response_headers.register(blueprint)
    static_files.register(blueprint)
    sign_in_page.register(blueprint, permissions)
    time_zone_page.register(blueprint, permissions)
    for export in EXPORTS:
        export.register(blueprint, permissions)
    for page in pages:
        page.register(blueprint, permissions)
    actions.register(blueprint, permissions)
    pulse.register(blueprint, permissions)
    error_pages.register(blueprint, permissions)
    app.register_blueprint(blueprint)
