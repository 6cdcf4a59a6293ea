"""Tree of errors. Each class has a code and an HTTP status; the API only formats them.

The first line of a class's docstring describes the error in the OpenAPI document.
"""

from collections.abc import Sequence
from typing import ClassVar, Self, TypedDict


class Detail(TypedDict):
    """One fault in a request; `pointer` is a JSON pointer into the body, or the name of a parameter."""

    pointer: str
    message: str


def clause(sentence: str) -> str:
    """Return a sentence as a part of a log line: with a small first letter, and without its full stop."""
    starts_with_word = sentence[1:2].islower() or sentence[:2] == "A "
    return (sentence[:1].lower() + sentence[1:] if starts_with_word else sentence).removesuffix(".")


class TaskExecutorError(Exception):
    """An error with a message for the client: whole sentences, with a capital and a full stop."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    retry_after_seconds: int = 1  # for retryable errors

    def __init_subclass__(cls, *, code: str = "", status: int = 0, retryable: bool | None = None) -> None:
        cls.code = code or cls.code
        cls.status = status or cls.status
        cls.retryable = cls.retryable if retryable is None else retryable

    def __init__(self, message: str, details: Sequence[Detail] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = list(details)

    @classmethod
    def of_faults(cls, *faults: Detail) -> Self:
        """Return the error for faults in a request; the message is about the first fault."""
        where = f"{faults[0]['pointer']}: " if faults[0]["pointer"] else ""
        return cls(f"The request is not valid. {where}{faults[0]['message']}", faults)

    @property
    def explained(self) -> str:
        """The message as a clause for logs and command lines; it may name a reason that clients do not see."""
        return clause(self.message)

    @classmethod
    def summary(cls) -> str:
        """Return one sentence on when this error occurs."""
        return (cls.__doc__ or "").split("\n", 1)[0]


class InternalError(TaskExecutorError):
    """The service has a fault; its log names the fault beside the request id."""


class InvalidRequestError(TaskExecutorError, code="INVALID_REQUEST", status=400):
    """The request itself is malformed."""


class UnauthorizedError(TaskExecutorError, code="UNAUTHORIZED", status=401):
    """The API key is missing, unknown, expired or revoked."""


class ForbiddenError(TaskExecutorError, code="FORBIDDEN", status=403):
    """The API key lacks the scope that the operation needs."""


class NotFoundError(TaskExecutorError, code="NOT_FOUND", status=404):
    """There is nothing at this path; the base of the *_NOT_FOUND codes."""

    message_format: ClassVar[str]

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the error for the id or the name of an absent resource."""
        return cls(cls.message_format.format(name))


class PayloadSpecNotFoundError(NotFoundError, code="PAYLOAD_SPEC_NOT_FOUND"):
    """No payload spec has that name."""


class ConfigNotFoundError(NotFoundError, code="CONFIG_NOT_FOUND"):
    """No config has that name."""


class SecretNotFoundError(NotFoundError, code="SECRET_NOT_FOUND"):
    """No secret has that name."""


class NotificationRuleNotFoundError(NotFoundError, code="NOTIFICATION_RULE_NOT_FOUND"):
    """No notification rule has that name."""


class EndpointNotFoundError(NotFoundError, code="ENDPOINT_NOT_FOUND"):
    """No live endpoint has that name."""

    message_format = "There is no endpoint named {!r}."

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    @classmethod
    def of(cls, name: str) -> Self:
        return cls(cls.message_format.format(name), name)

    @classmethod
    def fault_of(cls, name: str) -> str:
        """Return the fault of a field that names an absent endpoint."""
        return f"{cls.message_format.format(name)} Create it first: POST /endpoints."


class EndpointVersionNotFoundError(NotFoundError, code="ENDPOINT_VERSION_NOT_FOUND"):
    """The endpoint has no version of that number."""

    message_format = "There is no endpoint version {!r}. GET /endpoints/NAME/versions lists the versions."


class JobNotFoundError(NotFoundError, code="JOB_NOT_FOUND"):
    """No job has that id."""

    message_format = (
        "There is no job with the ID {!r}, or it was deleted after its retention. GET /jobs lists the jobs."
    )


class ExecutionNotFoundError(NotFoundError, code="EXECUTION_NOT_FOUND"):
    """No execution has that id."""

    message_format = (
        "There is no execution with the ID {!r}, or it was deleted after its retention. GET /executions lists the "
        "executions."
    )


class DeadLetterNotFoundError(NotFoundError, code="DEAD_LETTER_NOT_FOUND"):
    """No dead letter has that id."""

    message_format = "There is no dead letter with the ID {!r}. GET /dead-letters lists the dead letters."


class RedriveNotFoundError(NotFoundError, code="REDRIVE_NOT_FOUND"):
    """No redrive has that id."""

    message_format = "There is no redrive with the ID {!r}. GET /redrives lists the redrives."


class BulkOperationNotFoundError(NotFoundError, code="BULK_OPERATION_NOT_FOUND"):
    """No bulk operation has that id."""

    message_format = "There is no bulk operation with the ID {!r}. GET /bulk-operations lists the bulk operations."


class WorkflowNotFoundError(NotFoundError, code="WORKFLOW_NOT_FOUND"):
    """No workflow has that id."""

    message_format = "There is no workflow with the ID {!r}. GET /workflows lists the workflows."


class WorkflowNodeNotFoundError(NotFoundError, code="WORKFLOW_NODE_NOT_FOUND"):
    """The workflow has no node of that name."""

    message_format = "The workflow has no node {!r}. GET /workflows/ID/nodes lists its nodes."


class BreakerNotFoundError(NotFoundError, code="BREAKER_NOT_FOUND"):
    """No recent delivery to that target has failed, so the target has no breaker: every delivery is sent."""

    message_format = (
        "The target {!r} has no breaker: no recent delivery to it has failed, and every delivery is sent. "
        "GET /breakers lists the breakers."
    )


class WorkerNotFoundError(NotFoundError, code="WORKER_NOT_FOUND"):
    """No worker process has that id, or it ended more than a day ago."""

    message_format = "There is no worker with the ID {!r}. GET /workers lists the workers of the last day."


class ActorNotFoundError(NotFoundError, code="ACTOR_NOT_FOUND"):
    """No process has registered an actor of that name, or its endpoint is deleted."""

    message_format = "There is no actor {!r}: no process has registered it. GET /actors lists the actors."


class QueueNotFoundError(NotFoundError, code="QUEUE_NOT_FOUND"):
    """No execution waits in a queue of that name, and no worker, endpoint or route names it."""

    message_format = (
        "The queue {!r} is not known: no execution waits in it, no live worker serves it, and no endpoint or route "
        "names it. GET /queues lists the known queues."
    )


class ConflictError(TaskExecutorError, code="CONFLICT", status=409):
    """Something else depends on the resource, or its name is taken."""


class WorkerNotAliveError(TaskExecutorError, code="WORKER_NOT_ALIVE", status=409):
    """The worker process has ended or is lost, so it takes no commands."""


class JobNotUpdatableError(TaskExecutorError, code="JOB_NOT_UPDATABLE", status=409):
    """Only a CRON or INTERVAL job that is not retired can be updated."""


class ExecutionNotCancellableError(TaskExecutorError, code="EXECUTION_NOT_CANCELLABLE", status=409):
    """The execution is running or final."""


class ResultExpiredError(TaskExecutorError, code="RESULT_EXPIRED", status=410):
    """The execution has ended and its result was deleted: the endpoint's `result_retention` has passed."""


class EventsExpiredError(TaskExecutorError, code="EVENTS_EXPIRED", status=410):
    """Reading cannot continue at that position: later events were deleted, or it is ahead of the database's clock."""


class PreconditionFailedError(TaskExecutorError, code="PRECONDITION_FAILED", status=412):
    """The resource is not in the state that If-Match or If-None-Match asks for; nothing was changed."""


class PayloadTooLargeError(TaskExecutorError, code="PAYLOAD_TOO_LARGE", status=413):
    """The request body is too large."""


class UnsupportedMediaTypeError(TaskExecutorError, code="UNSUPPORTED_MEDIA_TYPE", status=415):
    """The body must be JSON, with Content-Type: application/json."""


class UnprocessableError(TaskExecutorError, code="INVALID_REQUEST", status=422):
    """The request is well-formed, but it cannot work; the base of the codes with status 422."""


class InvalidCronError(UnprocessableError, code="INVALID_CRON"):
    """The cron expression is malformed, or never fires."""


class InvalidSchemaError(UnprocessableError, code="INVALID_SCHEMA"):
    """The payload spec's schema is not a JSON Schema that can be used."""


class InvalidPayloadSpecRefError(UnprocessableError, code="INVALID_PAYLOAD_SPEC_REF"):
    """The endpoint names a payload spec that does not exist."""


class InvalidConfigRefError(UnprocessableError, code="INVALID_CONFIG_REF"):
    """The endpoint names a config that does not exist."""


class InvalidCallbackError(UnprocessableError, code="INVALID_CALLBACK"):
    """An endpoint to call back does not exist, refuses outcomes, or leads back to the calling endpoint."""


class InvalidNotificationRuleError(UnprocessableError, code="INVALID_NOTIFICATION_RULE"):
    """The notification rule matches everything, or nothing, or names an invalid channel."""


class InputValidationError(UnprocessableError, code="INPUT_VALIDATION_FAILED"):
    """The job's input does not match the endpoint's payload spec."""


class InvalidWorkflowError(UnprocessableError, code="INVALID_WORKFLOW"):
    """A name, an endpoint, a template or a size in the workflow is not valid."""


class WorkflowCycleError(UnprocessableError, code="WORKFLOW_CYCLE"):
    """Nodes of the workflow wait for each other."""


class IdempotencyKeyReusedError(UnprocessableError, code="IDEMPOTENCY_KEY_REUSED"):
    """The Idempotency-Key was already used for another request."""


class TemplateError(UnprocessableError, code="TEMPLATE_RESOLUTION_FAILED"):
    """A template is malformed, or a variable in it cannot be resolved."""


class RateLimitedError(TaskExecutorError, code="RATE_LIMITED", status=429, retryable=True):
    """Too many requests or waiting requests with this API key, or too many bad keys from this address."""

    def __init__(self, message: str, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnavailableError(TaskExecutorError, code="SERVICE_UNAVAILABLE", status=503, retryable=True):
    """The server is busy, or the database is unreachable or not migrated; nothing was lost, retry later."""

    def __init__(self, message: str, details: Sequence[Detail] = (), *, reason: str = "") -> None:
        super().__init__(message, details)
        self._reason = reason

    @property
    def explained(self) -> str:
        """The clause of the message, and the reason if it is known: the reason may name hosts and users."""
        return f"{clause(self.message)} ({self._reason})" if self._reason else clause(self.message)


class LockedError(UnavailableError):
    """Another transaction holds a row lock for longer than the lock timeout; nothing was lost, retry later."""


class TimedOutError(TaskExecutorError, code="GATEWAY_TIMEOUT", status=504, retryable=True):
    """The request took too long. Its work may have been done: check, or try again."""
