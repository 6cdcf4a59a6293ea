"""/health: whether the process is alive and can serve, for load balancers and process managers."""

from marshmallow import Schema, fields

from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("health", "Liveness and readiness; no key needed.", is_public=True)


class HealthSchema(Schema):
    """The answer when all is well."""

    status = fields.String(required=True, metadata={"example": "ok"})


@resource.route("GET", "/health/live", returns=HealthSchema)
def live() -> dict[str, str]:
    """Tell that the process answers."""
    return {"status": "ok"}


@resource.route("GET", "/health/ready", returns=HealthSchema)
def ready() -> dict[str, str]:
    """Tell that the database can be reached and is migrated, as of a second ago at most; 503 otherwise."""
    services().readiness.check()
    return {"status": "ok"}
