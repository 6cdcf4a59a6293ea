"""Workflows for tests: created as the API creates them, with executions that end as the test says."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, text

from app.features.workflows import control
from app.features.workflows.handlers import WORKFLOWS
from app.features.workflows.rules.graph import parse
from app.features.workflows.steps import advancing
from app.features.workflows.stored import workflow_creation
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.ending.handler import Handler
from app.queue.ending.letters import DeadLetter
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from schema.states import KeepResponse
from tests.claiming import take
from tests.verdicts import success

WORKER = "wrk_flows"
MAX_STEPS = 300
ERROR = DeliveryError("HTTP_ERROR", "answered 503")
FAILED = Verdict.fail(ERROR)
COUNTS = ("open_nodes", "running", "succeeded", "failed", "cancelled", "skipped")
NODES = text("SELECT * FROM workflow_nodes WHERE workflow_id = :id ORDER BY node, item")


def create(database: Database, nodes: Sequence[Mapping[str, Any]], **fields: Any) -> str:
    """Create a workflow and return its id."""
    graph = parse({"name": "flow", "nodes": nodes, **fields}, lambda names: dict.fromkeys(names, KeepResponse.ALWAYS))
    make = workflow_creation.create
    return database.transact(lambda connection: make(connection, graph, ids.workflow_id(), actor=None)).workflow_id


def job(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    """Return a node of the endpoint `target`."""
    return {"name": name, "endpoint": "target", "after": list(after), **fields}


def gate(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "after": list(after), **fields}


def register(database: Database) -> None:
    """Register the worker that ends executions."""
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


def advance(database: Database, workflow_id: str) -> None:
    """Make all steps that are possible now; far fewer than MAX_STEPS, unless the steps never end."""
    left = iter(range(MAX_STEPS))
    advancing.advance(database, workflow_id, until=lambda: next(left, None) is None)


def claims(database: Database, count: int = 10_000) -> list[Claim]:
    """Claim queued executions."""
    return take(database, WORKER, count).claims


def completions(claimed: Sequence[Claim], verdict: Verdict | None = None) -> list[Completion]:
    return [Completion(claim, ids.attempt_id(), verdict or success({}), claim.claimed_at, 5, ()) for claim in claimed]


def end(database: Database, claimed: Sequence[Claim], verdict: Verdict | None = None) -> list[str]:
    """End claimed executions; returns the ids of their completion events, which are not handled."""
    ended = completions(claimed, verdict)
    assert len(complete(database, WORKER, ended)) == len(ended)
    return [completion.attempt_id for completion in ended]


def handle(database: Database, event_ids: Sequence[str], *others: Handler) -> set[str]:
    """Handle completion events, also by other handlers; returns the workflows to advance."""
    done = OutboxProcessor(database, handlers=[*others, WORKFLOWS]).handle(event_ids)
    return {key for _, key in done.follow_ups}


def settle(database: Database, event_ids: Sequence[str]) -> None:
    """Handle completion events alone, so that no step reports them."""
    processor = OutboxProcessor(database, handlers=[WORKFLOWS])
    for event_id in event_ids:
        processor.handle_alone(event_id)


def handle_all(database: Database) -> set[str]:
    """Handle all completion events in the outbox; returns the workflows to advance."""
    return handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])


def cancel(database: Database, workflow_id: str, if_running: IfRunning | None = None) -> None:
    control.cancel(database, workflow_id, if_running=if_running, actor="test")


def run(
    database: Database, workflow_id: str, failing: Sequence[str] = (), outputs: Mapping[str, Any] | None = None
) -> list[list[str]]:
    """Advance and end all executions, wave by wave; returns the places of the executions of each wave.

    Executions of the places in `failing` fail.
    """
    waves = []
    while True:
        advance(database, workflow_id)
        claimed = {claim.execution_id: claim for claim in claims(database)}
        if not claimed:
            return waves
        places = places_of(database, workflow_id)
        waves.append(sorted(places[each] for each in claimed))
        verdicts = {
            each: FAILED
            if places[each] in failing
            else success((outputs or {}).get(places[each], {"status_code": 200}))
            for each in claimed
        }
        ended = [
            Completion(claim, ids.attempt_id(), verdicts[each], claim.claimed_at, 5, ())
            for each, claim in claimed.items()
        ]
        assert len(complete(database, WORKER, ended)) == len(ended)
        handle(database, [completion.attempt_id for completion in ended])


def places_of(database: Database, workflow_id: str) -> dict[str, str]:
    """Return the place of each execution: the name of a node, with `#` and the name or number of an item."""
    found = nodes(database, workflow_id)
    names = {row.node: row.name for row in found if not row.item}
    return {
        row.execution_id: f"{names[row.node]}#{row.name or row.item}" if row.item else row.name
        for row in found
        if row.execution_id is not None
    }


def nodes(database: Database, workflow_id: str) -> Sequence[Row[Any]]:
    return database.fetch(NODES, {"id": workflow_id})


def states(database: Database, workflow_id: str) -> dict[str, str]:
    """Return the state of each node, and its reason."""
    return {
        row.name: row.state if row.reason is None else f"{row.state} {row.reason}"
        for row in nodes(database, workflow_id)
        if not row.item
    }


def letters(database: Database) -> list[DeadLetter]:
    return [DeadLetter.from_row(row) for row in database.fetch(text("SELECT * FROM dead_letters"))]


def workflow(database: Database, workflow_id: str) -> Row[Any]:
    return database.fetch(text("SELECT * FROM workflows WHERE workflow_id = :id"), {"id": workflow_id})[0]


def status(database: Database, workflow_id: str) -> str:
    return str(workflow(database, workflow_id).status)


def inputs(database: Database, workflow_id: str) -> dict[str, Any]:
    """Return the input of each job, by its name without the name of the workflow."""
    found = database.fetch(
        text(
            "SELECT j.name, j.input FROM jobs AS j JOIN workflow_nodes AS n ON n.job_id = j.job_id "
            "WHERE n.workflow_id = :id ORDER BY n.node, n.item"
        ),
        {"id": workflow_id},
    )
    return {row.name.partition("/")[2]: row.input for row in found}


def jobs_of(database: Database, workflow_id: str) -> list[str]:
    """Return the idempotency keys of all jobs of a workflow."""
    found = database.fetch(
        text("SELECT idempotency_key FROM jobs WHERE idempotency_key LIKE :key"), {"key": f"te:node:{workflow_id}:%"}
    )
    return sorted(row.idempotency_key for row in found)


def body(value: Any) -> dict[str, Any]:
    """Return the output of an answer with a JSON body."""
    return {"status_code": 200, "body": json.dumps(value)}


def counts(database: Database, workflow_id: str) -> Mapping[str, int]:
    found = workflow(database, workflow_id)._asdict()
    return {name: found[name] for name in COUNTS if found[name]}


def runs(database: Database, workflow_id: str) -> dict[str, int]:
    return {row.name: row.run for row in nodes(database, workflow_id) if not row.item}
