"""Registration of all resources, of the console, and of the conventions of all operations."""

from typing import cast

from flask import Flask
from flask.json.provider import DefaultJSONProvider

from app import console
from app.features import FEATURES
from app.kernel.config import Settings
from app.web import api_keys_api, audit_api, cron_api, health_api, metrics_api
from app.web.catalog import (
    endpoint_versions_api,
    endpoints_api,
    named_api,
    payload_spec_check_api,
    similar_endpoints,
    uses_api,
)
from app.web.executions import attempts_api, executions_api, explain_api
from app.web.http import authentication, body, error_envelope, request_log
from app.web.jobs import batch_api, changes_api, schedules_api
from app.web.openapi import document, swagger_ui
from app.web.openapi.resource import Resource


def resources() -> list[Resource]:
    """Return all resources of the API, in the order of the OpenAPI document.

    A feature may also add operations to a resource of the kernel, which is listed once.
    """
    named = [named_api.payload_specs, named_api.configs, named_api.secrets]
    catalog = [payload_spec_check_api, endpoints_api, endpoint_versions_api, uses_api]
    executions = [executions_api, attempts_api, explain_api]
    modules = [*catalog, batch_api, changes_api, *executions, audit_api, api_keys_api, cron_api, schedules_api]
    kernel = [*named, *(each.resource for each in (*modules, health_api, metrics_api))]
    added = [resource for feature in FEATURES for resource in feature.resources()]
    return [*dict.fromkeys([*kernel, *added])]


def register(app: Flask, settings: Settings) -> None:
    """Add the resources, the console and the conventions of all operations."""
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    cast("DefaultJSONProvider", app.json).sort_keys = False
    # One path per resource: a redirect from // to / could lose a body.
    app.url_map.merge_slashes = False
    request_log.register(app)
    body.register(app, repeating=[console.NAME])
    registered = resources()
    authentication.register(app, registered, own_access=[console.NAME])
    document.register(app, registered)
    swagger_ui.register(app)
    error_envelope.register(app)
    similar_endpoints.register(app)
    if settings.console == "on":
        console.register(app, registered)
