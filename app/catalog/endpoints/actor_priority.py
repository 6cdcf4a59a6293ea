"""Priority of an actor: its endpoint follows a change in the code, and keeps a priority that a request has set."""

from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.live_settings import change_flow
from app.kernel.audit import Actor
from app.kernel.audit.change import AuditedChange, Condition, StateTag
from app.kernel.db import Database


def follow_priority(database: Database, endpoint: Endpoint, registered: int, registrar: Actor) -> bool:
    """Set the priority of an endpoint if the code has changed it; return whether the endpoint had another.

    A spec without a registered priority tells nothing of the code before. Raises PreconditionFailedError.
    """
    if registered in (endpoint.spec.get("priority", registered), endpoint.priority):
        return False
    change = AuditedChange(registrar, Condition(match=StateTag(endpoint.tag)))
    change_flow(database, endpoint.name, {"priority": registered}, change)
    return True
