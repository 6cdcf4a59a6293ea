"""All other errors: of the request, of who sends it, of what is there already, of the service."""

from collections.abc import Sequence
from typing import Self

from app.kernel.errors.base import Detail, TaskExecutorError


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


class RateLimitedError(TaskExecutorError):
    """Too many requests with this API key, or too many of it that wait, or too many with bad keys from this address."""

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
