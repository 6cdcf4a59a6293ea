"""Reason of breakers: an execution waits because the breaker of its target is open."""

from typing import Any

from app.features.breakers import store
from app.kernel.db import Database
from app.queue.reading.waiting_reasons import Explanation, Facts, Line, WaitingReason, at
from schema.states import BreakerState


class BreakerReason(WaitingReason):
    """The target of the endpoint gets no deliveries except probes."""

    def explain(self, database: Database, facts: Facts, line: Line, details: dict[str, Any]) -> Explanation | None:  # noqa: ARG002
        found = store.of_endpoint(database, facts.endpoint)
        if not found:
            return None
        breaker = found[0]
        details |= {"target": breaker.target, "breaker": breaker.state, "breaker_reason": breaker.reason}
        if breaker.state == BreakerState.OPEN and breaker.open_until is not None:
            until = breaker.open_until
            text = f"It is due, but nothing is sent to {breaker.target}, whose breaker is open until {at(until)}."
            return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, until, details)
        text = f"It is due, but a single delivery probes {breaker.target}, whose breaker is half open; the others wait."
        return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, None, details)
