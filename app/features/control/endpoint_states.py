"""States of endpoints: deliveries of a window by the rollups, and the present holds of endpoints."""

from datetime import timedelta
from typing import NamedTuple

from app.catalog.endpoints import live_settings
from app.features.breakers import store as breakers
from app.features.control.statistics import held_endpoints
from app.features.control.trouble import EndpointState
from app.features.dead_letters import metrics as dead_letters
from app.features.rollups.delivery_history import ALL, OTHERS
from app.features.rollups.endpoint_rollups import Window, of_endpoints
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from schema.states import BreakerState

MAX_BREAKERS = 200


class EndpointStates(NamedTuple):
    """Endpoints with deliveries in the window or something that holds them back, and the window."""

    window: Window
    states: list[EndpointState]


def endpoint_states(database: Database, window: timedelta) -> EndpointStates:
    """Read the states of endpoints: about a dozen statements, however many executions there are."""
    found = of_endpoints(database, window)
    held = {each.endpoint: each for each in held_endpoints(database)}
    letters = {each.endpoint: each.letters for each in dead_letters.open_letters(database)}
    paused = {row.name: row for row in live_settings.paused(database)}
    broken = {
        endpoint: breaker
        for state in (BreakerState.HALF_OPEN, BreakerState.OPEN)
        for breaker in breakers.page(database, state, PageRequest(MAX_BREAKERS)).items
        for endpoint in breaker["endpoints"]
    }
    names = {*found.endpoints, *held, *letters, *paused, *broken} - {ALL, OTHERS}
    seconds = (found.until - found.since).total_seconds()
    states = [
        EndpointState(
            endpoint=name,
            seconds=seconds,
            deliveries=found.endpoints.get(name),
            held=held.get(name),
            letters=letters.get(name, 0),
            breaker=broken.get(name, {}).get("state"),
            breaker_until=broken.get(name, {}).get("open_until"),
            paused_at=getattr(paused.get(name), "paused_at", None),
            paused_by=getattr(paused.get(name), "paused_by", None),
        )
        for name in sorted(names)
    ]
    return EndpointStates(found, states)
