"""The tree of errors. Each class has its code and HTTP status; the API only formats them."""

from collections.abc import Sequence
from typing import ClassVar, Self, TypedDict


class Detail(TypedDict):
    """One fault in a request: where (a JSON pointer into the body, or a parameter's name) and what."""

    pointer: str
    message: str


class TaskExecutorError(Exception):
    """An error with a message for the client."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    retry_after_seconds: int = 1  # for those that are retryable

    def __init__(self, message: str, details: Sequence[Detail] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = list(details)

    @property
    def explained(self) -> str:
        """Return the message for logs and command lines, which may say more than a client is told."""
        return self.message

    @classmethod
    def summary(cls) -> str:
        """Return one sentence on when this error occurs; for the OpenAPI document."""
        return (cls.__doc__ or "").split("\n", 1)[0]


class InternalError(TaskExecutorError):
    """Something went wrong on our side; the request id finds it in the log."""


class InvalidRequestError(TaskExecutorError):
    """The request itself is malformed."""

    code = "INVALID_REQUEST"
    status = 400


class UnauthorizedError(TaskExecutorError):
    """The API key is missing, unknown, expired or revoked."""

    code = "UNAUTHORIZED"
    status = 401


class ForbiddenError(TaskExecutorError):
    """The API key lacks the scope that the operation needs."""

    code = "FORBIDDEN"
    status = 403


class NotFoundError(TaskExecutorError):
    """The base of the *_NOT_FOUND codes; itself for an unknown path."""

    code = "NOT_FOUND"
    status = 404


class PayloadSpecNotFoundError(NotFoundError):
    """No payload spec has that name."""

    code = "PAYLOAD_SPEC_NOT_FOUND"


class ConfigNotFoundError(NotFoundError):
    """No config has that name."""

    code = "CONFIG_NOT_FOUND"


class SecretNotFoundError(NotFoundError):
    """No secret has that name."""

    code = "SECRET_NOT_FOUND"


class EndpointNotFoundError(NotFoundError):
    """No live endpoint has that name."""

    code = "ENDPOINT_NOT_FOUND"


class JobNotFoundError(NotFoundError):
    """No job has that id."""

    code = "JOB_NOT_FOUND"

    @classmethod
    def of(cls, job_id: str) -> Self:
        """Return the error for a job id."""
        return cls(f"Job with ID {job_id!r} does not exist.")


class ExecutionNotFoundError(NotFoundError):
    """No execution has that id."""

    code = "EXECUTION_NOT_FOUND"

    @classmethod
    def of(cls, execution_id: str) -> Self:
        """Return the error for an execution id."""
        return cls(f"Execution with ID {execution_id!r} does not exist.")


class DeadLetterNotFoundError(NotFoundError):
    """No dead letter has that id."""

    code = "DEAD_LETTER_NOT_FOUND"

    @classmethod
    def of(cls, letter_id: str) -> Self:
        """Return the error for the id of a letter."""
        return cls(f"Dead letter with ID {letter_id!r} does not exist; GET /dead-letters lists those that do.")


class ResultExpiredError(TaskExecutorError):
    """The execution is over, and its result is not kept any more: the endpoint's `result_retention` has passed."""

    code = "RESULT_EXPIRED"
    status = 410


class EventsExpiredError(TaskExecutorError):
    """The events behind that place are not kept any more: ask from a later one, or with `since`."""

    code = "EVENTS_EXPIRED"
    status = 410


class RedriveNotFoundError(NotFoundError):
    """No redrive has that id."""

    code = "REDRIVE_NOT_FOUND"

    @classmethod
    def of(cls, redrive_id: str) -> Self:
        """Return the error for the id of a redrive."""
        return cls(f"Redrive with ID {redrive_id!r} does not exist; GET /redrives lists those that do.")


class BreakerNotFoundError(NotFoundError):
    """No delivery to that target has failed of late, so it has no breaker: all is sent."""

    code = "BREAKER_NOT_FOUND"

    @classmethod
    def of(cls, target: str) -> Self:
        """Return the error for a target."""
        return cls(f"The target {target!r} has no breaker: no delivery to it has failed of late, and all is sent.")


class WorkerNotFoundError(NotFoundError):
    """No worker process has that id, or it ended more than a day ago."""

    code = "WORKER_NOT_FOUND"

    @classmethod
    def of(cls, worker_id: str) -> Self:
        """Return the error for the id of a worker."""
        return cls(f"Worker with ID {worker_id!r} does not exist. GET /workers lists those of the last day.")


class QueueNotFoundError(NotFoundError):
    """Nothing waits in a queue of that name, and no worker, endpoint or route knows it."""

    code = "QUEUE_NOT_FOUND"

    @classmethod
    def of(cls, queue: str) -> Self:
        """Return the error for the name of a queue."""
        return cls(
            f"The queue {queue!r} is not known: nothing waits in it, no live worker serves it, and no endpoint or "
            "route names it. GET /queues lists those that are."
        )


class ConflictError(TaskExecutorError):
    """Something else depends on the resource, or its name is taken."""

    code = "CONFLICT"
    status = 409


class WorkerNotAliveError(TaskExecutorError):
    """The worker process has ended or is lost, so it takes no commands."""

    code = "WORKER_NOT_ALIVE"
    status = 409

    @classmethod
    def of(cls, worker_id: str) -> Self:
        """Return the error for the id of a worker."""
        return cls(
            f"The worker {worker_id!r} has ended or is lost: it claims nothing any more, and what it held is taken "
            "back. GET /workers?state=ALIVE lists those that work."
        )


class JobNotUpdatableError(TaskExecutorError):
    """Only a CRON or INTERVAL job that is not retired can be updated."""

    code = "JOB_NOT_UPDATABLE"
    status = 409


class ExecutionNotCancellableError(TaskExecutorError):
    """The execution is running or final."""

    code = "EXECUTION_NOT_CANCELLABLE"
    status = 409


class PayloadTooLargeError(TaskExecutorError):
    """The request body is too large."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413


class UnsupportedMediaTypeError(TaskExecutorError):
    """The body must be JSON, with Content-Type: application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class PreconditionFailedError(TaskExecutorError):
    """The resource is not in the state that If-Match or If-None-Match asks for; nothing was changed."""

    code = "PRECONDITION_FAILED"
    status = 412


class UnprocessableError(TaskExecutorError):
    """The base of the 422 codes: well-formed, but it cannot work."""

    code = "INVALID_REQUEST"
    status = 422


class InvalidCronError(UnprocessableError):
    """The cron expression is not one, or never fires."""

    code = "INVALID_CRON"


class InvalidSchemaError(UnprocessableError):
    """The payload spec's schema is not a JSON Schema that can be used."""

    code = "INVALID_SCHEMA"


class InvalidPayloadSpecRefError(UnprocessableError):
    """The endpoint names a payload spec that does not exist."""

    code = "INVALID_PAYLOAD_SPEC_REF"


class InvalidConfigRefError(UnprocessableError):
    """The endpoint names a config that does not exist."""

    code = "INVALID_CONFIG_REF"


class InvalidCallbackError(UnprocessableError):
    """An endpoint to call back does not exist, refuses outcomes, or leads back to where it is called from."""

    code = "INVALID_CALLBACK"


class InputValidationError(UnprocessableError):
    """The job's input does not match the endpoint's payload spec."""

    code = "INPUT_VALIDATION_FAILED"


class IdempotencyKeyReusedError(UnprocessableError):
    """The Idempotency-Key was used for another request before."""

    code = "IDEMPOTENCY_KEY_REUSED"


class TemplateError(UnprocessableError):
    """A template is malformed, or a variable in it cannot be resolved."""

    code = "TEMPLATE_RESOLUTION_FAILED"


class RateLimitedError(TaskExecutorError):
    """Too many requests with this API key, or with bad keys from this address."""

    code = "RATE_LIMITED"
    status = 429
    retryable = True

    def __init__(self, message: str, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnavailableError(TaskExecutorError):
    """The server is busy, or the database cannot be reached or is not migrated; nothing was lost, try again."""

    code = "SERVICE_UNAVAILABLE"
    status = 503
    retryable = True

    def __init__(self, message: str, details: Sequence[Detail] = (), *, reason: str = "") -> None:
        super().__init__(message, details)
        self._reason = reason

    @property
    def explained(self) -> str:
        """Return the message, and the reason where one is known: it may name hosts and users."""
        return f"{self.message} ({self._reason})" if self._reason else self.message


class TimedOutError(TaskExecutorError):
    """The request took too long; what it asked for may have been done, look or try again."""

    code = "GATEWAY_TIMEOUT"
    status = 504
    retryable = True
