"""Results: an actor's result is written with the success of its execution."""

import base64
import time
from typing import TYPE_CHECKING, Any

from dramatiq.encoder import JSONEncoder
from dramatiq.results import ResultBackend, ResultFailure, ResultMissing, ResultTimeout
from dramatiq.results.backend import DEFAULT_TIMEOUT

from task_executor_dramatiq.http_sending import HttpSender
from task_executor_dramatiq.in_hand import MessageInHand
from task_executor_dramatiq.messages import endpoint_name
from task_executor_dramatiq.sending import MissingExecutionError

if TYPE_CHECKING:
    from task_executor_dramatiq.broker import TaskExecutorBroker

MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.005, 0.25
MAX_WAIT_SECONDS = 10
FINAL = {"SUCCESS", "FAILED", "CANCELLED"}

READ = """
    SELECT e.status, e.output, (SELECT a.error FROM attempts a WHERE a.execution_id = e.execution_id
                                ORDER BY a.attempt_number DESC LIMIT 1)
      FROM jobs j JOIN executions e ON e.job_id = j.job_id
     WHERE j.endpoint = %s AND j.idempotency_key = %s
     ORDER BY e.created_at DESC LIMIT 1"""


class ExecutionsBackend(ResultBackend):
    """Backend of the results of executions.

    A result is stored in the transaction that ends the execution, at most 256 KiB, for as long as the service keeps
    it: `result_ttl` has no effect. The exception of a failed actor is the error of its execution.
    """

    def __init__(self, broker: "TaskExecutorBroker", **options: Any) -> None:
        super().__init__(**options)
        self._broker = broker

    def store_result(self, message: Any, result: Any, ttl: int) -> None:
        """Add the result to the outcome of the message in hand."""
        del ttl
        if isinstance(message, MessageInHand):
            message.results.append(self._encoded(result))

    def store_exception(self, message: Any, exception: BaseException, ttl: int) -> None:
        """Do nothing: the failed execution has its error."""

    def get_result(self, message: Any, *, block: bool = False, timeout: int | None = None) -> Any:
        """Return the result of a message; raises ResultMissing, ResultTimeout, or ResultFailure."""
        patience = (DEFAULT_TIMEOUT if timeout is None else timeout) / 1000 if block else 0.0
        until, pause = time.monotonic() + patience, MIN_POLL_SECONDS
        while True:
            left = max(0.0, until - time.monotonic())
            found = self.read(message, min(left, MAX_WAIT_SECONDS))
            if found is not None and found[0] in FINAL:
                return self._result(message, *found)
            if not block:
                raise ResultMissing(message)
            if time.monotonic() + pause > until:
                raise ResultTimeout(message)
            time.sleep(pause)
            pause = min(2 * pause, MAX_POLL_SECONDS)

    def read(self, message: Any, wait_seconds: float = 0.0) -> tuple[str, Any, Any] | None:
        """Return status, output and error of the execution of a message; None if there is none yet."""
        endpoint, reader = endpoint_name(message.actor_name), self._broker.reader
        if not isinstance(reader, HttpSender):
            row = reader.run(lambda execute: execute(READ, (endpoint, message.message_id)))
            return None if row is None else (row[0], row[1], row[2])
        execution_id = self._broker.executions.id_of(message)
        if execution_id is None:
            return None
        query = {"wait": f"{round(wait_seconds * 1000)}ms"} if wait_seconds else None
        path = f"/executions/{execution_id}/result"
        answer = reader.ask("GET", path, query=query, field="execution_id", patience=wait_seconds)
        return answer["status"], answer.get("output"), answer.get("error")

    def status(self, message: Any) -> str | None:
        """Return the status of the execution of a message, also after its result expired; None if there is none."""
        reader = self._broker.reader
        if not isinstance(reader, HttpSender):
            found = self.read(message)
            return None if found is None else found[0]
        execution_id = self._broker.executions.id_of(message)
        if execution_id is None:
            return None
        try:
            found_status: str = reader.ask("GET", f"/executions/{execution_id}", field="execution_id")["status"]
        except MissingExecutionError:
            return None
        return found_status

    def _result(self, message: Any, status: str, output: Any, error: Any) -> Any:
        if status != "SUCCESS":
            type_, text = ((error or {}).get(name) for name in ("type", "message"))
            type_, text = type_ or status, text or f"the execution is {status}"
            name = str(type_).rpartition(".")[2]
            raise ResultFailure(f"actor raised {name}: {text}", name, str(text))
        if "body" not in (output or {}):
            if (output or {}).get("skipped"):
                return None
            raise ResultMissing(message)
        return self._decoded(output["body"])

    def _encoded(self, result: Any) -> Any:
        if isinstance(self.encoder, JSONEncoder):
            return result
        return {"encoded": base64.b64encode(self.encoder.encode(result)).decode()}

    def _decoded(self, stored: Any) -> Any:
        if isinstance(self.encoder, JSONEncoder) or not isinstance(stored, dict) or stored.keys() != {"encoded"}:
            return stored
        return self.encoder.decode(base64.b64decode(stored["encoded"]))
