"""Claim and completion of an execution, as a worker does them."""

from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from tests import rows
from tests.claiming import partitions_of, take

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
WORKER = "wrk_1"


def claim(database: Database) -> Claim:
    """Claim one execution. With several shards, the executions are in several partitions: claim from one of them."""
    database.fetch(text("UPDATE executions SET run_at = now() WHERE run_at > now()"))
    answer = take(database, WORKER, 1, partitions=tuple(partitions_of(database)[:1]))
    return answer.claims[0]


def end(database: Database, taken: Claim, verdict: Verdict) -> None:
    complete(database, WORKER, [Completion(taken, ids.attempt_id(), verdict, rows.database_now(database), 0, ())])
