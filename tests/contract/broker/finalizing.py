"""A running finalizer, and claims with results for the finalizer to write."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim, LogLine
from brokers.finalizer import Finalizer
from brokers.inbox import Inboxes
from brokers.outbox_thread import OutboxThread
from brokers.outcomes import Outcomes
from schema.states import LogLevel
from tests import rows
from tests.claiming import take
from tests.verdicts import success
from tests.waiting import eventually

WORKER = "wrk_1"
RETRY_SECONDS = (0.005, 0.01, 0.02, 0.05)
"""Much shorter than the pauses in production, so that the tests do not spend their time waiting."""
OUTPUT = {"status_code": 200, "body": "as it was answered"}


class Running:
    """A running finalizer, and claims with results for the finalizer to write."""

    def __init__(self, database: Database, finalizer_database: Database) -> None:
        self.database = database
        self.values = Values()
        inboxes = Inboxes()
        processor = OutboxProcessor(finalizer_database, handlers=(), values=self.values)
        outbox = OutboxThread(processor, inboxes)
        rules = FlowRules(finalizer_database)
        outcomes = Outcomes(finalizer_database, WORKER, self.values, rules, inboxes=inboxes, outbox=outbox)
        self.finalizer = Finalizer(outcomes, self.values, retry_seconds=RETRY_SECONDS)
        lease_ms = 600_000
        worker_lease.register(
            database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms
        )
        self.finalizer.start()

    def claim(self, count: int) -> list[Claim]:
        """Create and claim executions; return the claims in the order of their ids."""
        rows.add_executions(self.database, count, max_attempts=3)
        claims = take(self.database, WORKER, count).claims
        return sorted(claims, key=lambda claim: claim.execution_id)

    def end(self, *claims: Claim, output: dict[str, object] | None = None) -> None:
        """Submit a success of each claim to the finalizer."""
        for claim in claims:
            verdict = success(output or OUTPUT)
            logs = (LogLine(LogLevel.INFO, "it's delivered"),)
            self.finalizer.submit(Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, logs))

    def ended(self, *claims: Claim) -> bool:
        """Return whether the success and the output of all claims are in the database."""
        found = [rows.execution(self.database, claim.execution_id) for claim in claims]
        return all(row.status == "SUCCESS" and row.output == OUTPUT for row in found)

    def wait_for(self, *claims: Claim) -> None:
        """Wait until the success and the output of all claims are in the database."""
        eventually(lambda: self.ended(*claims), what="the results")


Run = Callable[[Database], Running]


@contextmanager
def locked(database: Database, claim: Claim) -> Iterator[None]:
    """Hold the row lock of an execution, as an open session of an operator could."""
    lock = text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE")
    with database.engine.connect() as operator, operator.begin():
        operator.execute(lock, {"id": claim.execution_id})
        yield
