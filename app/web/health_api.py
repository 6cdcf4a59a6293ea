"""/health: liveness and readiness, for load balancers and process managers."""

from marshmallow import Schema, fields

from app.kernel.described_fields import answered
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("health", "Liveness and readiness, without an API key.", is_public=True)


class HealthSchema(Schema):
    status = fields.String(**answered(example="ok"))


@resource.route("GET", "/health/live", returns=HealthSchema)
def live() -> dict[str, str]:
    """Check that the process answers."""
    return {"status": "ok"}


@resource.route("GET", "/health/ready", returns=HealthSchema)
def ready() -> dict[str, str]:
    """Check that the database can be reached and is migrated, as of at most a second ago; 503 otherwise."""
    services().readiness.check()
    return {"status": "ok"}
