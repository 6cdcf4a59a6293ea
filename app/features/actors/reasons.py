"""Reason of actors: an execution waits because no process of the user offers its actor."""

from typing import Any

from app.features.actors.store import IS_CONNECTED, offers, refusal
from app.kernel.db.reads import Reads
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import read_together, statement
from app.queue.reading.waiting_reasons import Explanation, Facts, QueuePosition, WaitingReason
from schema.states import EndpointType

OFFERED = statement(
    "executions.explain_actor",
    """
    SELECT n.spec->>'actor' AS actor, EXISTS (
             SELECT 1 FROM actor_processes AS p JOIN workers AS w ON w.worker_id = p.worker_id
              WHERE {connected} AND NOT {draining} AND w.queues @> jsonb_build_array(CAST(:queue AS TEXT))
                AND {offered}) AS is_offered, (
             SELECT {refusal} FROM actor_processes AS p JOIN workers AS w ON w.worker_id = p.worker_id
              WHERE {connected} AND {refusal} IS NOT NULL
              ORDER BY p.connected_at DESC, p.session_id LIMIT 1) AS refusal
      FROM endpoints AS n WHERE n.name = :endpoint
    """,
    connected=IS_CONNECTED,
    draining=IS_DRAINING,
    offered=offers("n.name"),
    refusal=refusal("n.name"),
)
read_together(OFFERED, endpoint="TEXT", queue="TEXT")


class ActorReason(WaitingReason):
    """No connected process has the actor of the endpoint."""

    statements = (OFFERED,)

    def explain(
        self,
        reads: Reads,
        facts: Facts,
        line: QueuePosition,  # noqa: ARG002
        details: dict[str, Any],
    ) -> Explanation | None:
        if facts.endpoint_type is not EndpointType.ACTOR:
            return None
        (found,) = reads.fetch(OFFERED, {"endpoint": facts.endpoint, "queue": facts.queue})
        if found.is_offered:
            return None
        details["actor"] = found.actor
        where = f"connected to a worker of the queue {facts.queue!r}"
        text = f"It is due, but no process {where} offers its actor {found.actor!r}; it starts once one does."
        if found.refusal is not None:
            details["refusal"] = found.refusal
            text += f" A connected process has it, but may not run it: {found.refusal}"
        return Explanation(facts.status, "NO_PROCESS", text, facts.run_at, None, details)
