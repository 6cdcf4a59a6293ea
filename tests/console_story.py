"""A story for the pages of executions and dead letters: rows as the service leaves them after some trouble."""

from datetime import timedelta
from typing import Any

from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus
from tests import rows
from tests.claiming import partitions_of, take

WORKER = "wrk_story"
TIMEOUT = DeliveryError("TIMEOUT", "no complete answer came within 5000 ms", may_have_been_delivered=True)
REFUSED = DeliveryError(
    "HTTP_ERROR",
    "the endpoint answered 503 Service Unavailable; expected: 200",
    extra={"status_code": 503, "body": '{"error": "try later", "order": 12345678901234567890}'},
)
UNKNOWN = DeliveryError("HTTP_ERROR", "the endpoint answered 422 Unprocessable; expected: 200", permanent=True)


class Story:
    """Executions in all states; the attributes name those that tests open."""

    def __init__(self, database: Database) -> None:
        self.database = database
        worker_lease.register(
            database, worker_id=WORKER, host="host-a", pid=812, queues=["http"], capacity=99, lease_ms=6_000_000
        )
        for name in ("charge-card", "send-mail"):
            spec = {"url": f"https://{name}.example/{{{{input.order}}}}", "method": "POST", "timeout_ms": 5000}
            rows.add_endpoint(database, name, spec=spec)
        self.good, *_ = [self._run("send-mail", None) for _ in range(4)]
        self.failed = self._run("charge-card", TIMEOUT, REFUSED, TIMEOUT)
        self.letters = [self._letter(self._run("charge-card", TIMEOUT, TIMEOUT), TIMEOUT) for _ in range(7)]
        self.letters += [self._letter(self._run("send-mail", UNKNOWN), UNKNOWN) for _ in range(3)]
        self.letter = self.letters[0]
        self.job = rows.execution(database, self.failed).job_id
        self.retrying = self._run("charge-card", REFUSED, is_last=False)
        self.waiting = rows.add_executions(database, 5, endpoint="send-mail", max_attempts=3, input_={"order": "o-9"})
        self.later = rows.add_executions(
            database, 2, endpoint="send-mail", status="PENDING", due_in=timedelta(hours=2), input_={"order": "o-10"}
        )
        rows.move_to_one_shard(database)
        (self.running,) = [claim.execution_id for claim in self._claim("charge-card", {"order": "o-11"})]
        database.fetch(
            text("UPDATE jobs SET name = 'order 81', labels = '{\"team\": \"billing\"}' WHERE endpoint = 'charge-card'")
        )

    def _claim(self, endpoint: str, input_: dict[str, Any]) -> list[Claim]:
        rows.add_executions(self.database, endpoint=endpoint, max_attempts=3, input_=input_)
        rows.move_to_one_shard(self.database)
        wanted = [each for each in partitions_of(self.database) if each.endpoint == endpoint]
        return list(take(self.database, WORKER, 1, partitions=tuple(wanted)).claims)

    def _run(self, endpoint: str, *errors: DeliveryError | None, is_last: bool = True) -> str:
        """Run an execution through attempts, some seconds apart; None is a success."""
        (claim,) = self._claim(endpoint, {"order": "o-81"})
        execution_id = claim.execution_id
        for number, error in enumerate(errors, 1):
            ends = is_last and number == len(errors)
            self._end(claim, error, ends=ends)
            if number < len(errors):
                self.database.fetch(
                    text("UPDATE executions SET run_at = now() WHERE execution_id = :id"), {"id": execution_id}
                )
                wanted = [each for each in partitions_of(self.database) if each.endpoint == endpoint]
                (claim,) = take(self.database, WORKER, 1, partitions=tuple(wanted)).claims
        self._spread(execution_id)
        return execution_id

    def _end(self, claim: Claim, error: DeliveryError | None, *, ends: bool) -> None:
        if error is None:
            verdict = Verdict(ExecutionStatus.SUCCESS, output={"status_code": 200, "body": '{"ok": true}'})
        else:
            verdict = Verdict.fail(error) if ends else Verdict.retry(error, 41_000)
        now = rows.database_now(self.database)
        complete(self.database, WORKER, [Completion(claim, ids.attempt_id(), verdict, now, 84, ())])

    def _spread(self, execution_id: str) -> None:
        """Move the past of an execution apart, as if its attempts had taken seconds and its waits minutes."""
        self.database.fetch(
            text(
                "UPDATE attempts SET "
                "  started_at = now() - INTERVAL '10 minutes' + attempt_number * INTERVAL '2 minutes', "
                "  completed_at = now() - INTERVAL '9 minutes 55 seconds' + attempt_number * INTERVAL '2 minutes', "
                "  due_at = now() - INTERVAL '10 minutes 2 seconds' + attempt_number * INTERVAL '2 minutes', "
                "  duration_ms = 5000 WHERE execution_id = :id"
            ),
            {"id": execution_id},
        )
        self.database.fetch(
            text("UPDATE executions SET created_at = now() - INTERVAL '9 minutes' WHERE execution_id = :id"),
            {"id": execution_id},
        )

    def _letter(self, execution_id: str, error: DeliveryError) -> str:
        self.lettered = execution_id  # the last
        (row,) = self.database.fetch(
            text("SELECT completed_at FROM executions WHERE execution_id = :id"), {"id": execution_id}
        )
        return rows.add_letter(
            self.database,
            execution_id,
            error_type=error.type,
            message=error.own_message,
            failed_at=row.completed_at,
            attempt_count=2,
            labels={"team": "billing"},
        )
