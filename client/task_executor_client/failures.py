"""What can go wrong with a call; the errors with a documented code are in `errors`."""

from typing import Any, TypedDict


class Detail(TypedDict):
    """One fault in a request: where (a JSON pointer into the body, or a parameter's name) and what."""

    pointer: str
    message: str


class TaskExecutorError(Exception):
    """The base of all errors of this package; no message holds the API key or a body that was sent."""


class ApiError(TaskExecutorError):
    """The service refused a request; a code that this version does not know is an instance of this class itself."""

    def __init__(
        self,
        operation: str,
        status: int,
        code: str,
        message: str,
        *,
        details: list[Detail] | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """`request_id` finds it in the log of the service; `retry_after` is in seconds."""
        self.operation = operation
        self.status = status
        self.code = code
        self.message = message
        self.details = details or []
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        faults = "".join(f"; {detail['pointer']}: {detail['message']}" for detail in self.details[:5])
        super().__init__(f"{operation} was answered {status} {code}: {message}{faults} (request {request_id})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel between processes: its arguments are not those of Exception."""
        given = (self.operation, self.status, self.code, self.message)
        return _again, (type(self), given, {name: getattr(self, name) for name in _NAMED})


_NAMED = ("details", "request_id", "retryable", "retry_after")


def _again(class_: type[ApiError], given: tuple[str, int, str, str], named: dict[str, Any]) -> ApiError:
    return class_(*given, **named)


class ConnectionFailedError(TaskExecutorError):
    """No answer came; `may_have_been_done` is False where the request cannot have reached the service."""

    def __init__(self, message: str, may_have_been_done: bool = True) -> None:
        super().__init__(message, may_have_been_done)
        self.may_have_been_done = may_have_been_done

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])


class UnexpectedAnswerError(TaskExecutorError):
    """The answer is none of this service: a redirect, a page of a proxy, JSON of another kind, or too much of it."""


class NotModifiedError(TaskExecutorError):
    """The state is still that of `if_none_match`."""


class WaitTimeoutError(TaskExecutorError):
    """What was waited for has not ended in time; it goes on."""
