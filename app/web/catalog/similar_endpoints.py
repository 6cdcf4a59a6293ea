"""404 of a misspelt endpoint: it suggests the nearest name to keys that may read endpoints."""

from contextlib import suppress

from flask import Flask, Response, g

from app.catalog.endpoints import versions
from app.kernel.access.api_keys import Scope
from app.kernel.errors import EndpointNotFoundError, UnavailableError
from app.kernel.suggestions import did_you_mean
from app.web.http import error_envelope
from app.web.services import services


def register(app: Flask) -> None:
    """Answer EndpointNotFoundError with a suggestion."""
    app.register_error_handler(EndpointNotFoundError, _suggest)


def _suggest(error: EndpointNotFoundError) -> Response:
    if g.api_key.allows(Scope.READ):
        with suppress(UnavailableError):
            error.message += did_you_mean(error.name, versions.similar_names(services().database, error.name))
    return error_envelope.answer(error)
