"""Errors of calls; the classes of documented error codes are in `errors`.

TaskExecutorError
    ApiError                        the service refused the request
        errors.…                    with a documented code
    ConnectionFailedError           no answer
    UnexpectedAnswerError           an answer that Task Executor does not send
    NotModifiedError                the state still matches `if_none_match`
    WaitTimeoutError                the limit of `wait` has passed
    RegistrationConflictError       `register` met another definition
    transaction.EnqueueError        `enqueue` failed
"""

from typing import Any, TypedDict


class Detail(TypedDict):
    """Fault in a request.

    Attributes:
        pointer: JSON pointer into the body, or the name of a parameter.
        message: Explanation of the fault.
    """

    pointer: str
    message: str


class TaskExecutorError(Exception):
    """Base of all errors of this package; messages contain neither the API key nor a request body.

    Example:
        try:
            te.jobs.get(job_id)
        except TaskExecutorError as error:
            print(error)
    """


class ApiError(TaskExecutorError):
    """Refusal by the service. Codes unknown to this version raise ApiError itself.

    The client has used its retries before it raises the error. The error can be pickled.

    Attributes:
        operation: Operation, such as `jobs.create`.
        status: HTTP status.
        code: Error code, such as `JOB_NOT_FOUND`.
        message: Message of the service.
        details: Faults in the request; empty if the service names none.
        request_id: Id of the request in the log of the service; None if the answer has none.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds of Retry-After; None without the header, or for a date.

    Example:
        try:
            te.jobs.create(endpoint="mail", trigger="IMMEDIATE", input={"to": 7})
        except ApiError as error:
            print(error.code, [detail["pointer"] for detail in error.details])
    """

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
        self.operation = operation
        self.status = status
        self.code = code
        self.message = message
        self.details = details or []
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        faults = (f"{detail['pointer']}: {detail['message']}" for detail in self.details[:5])
        # The pointer of a fault may be the end of another one.
        explained = "; ".join([message, *(fault for fault in faults if f" {fault}" not in f" {message}")])
        super().__init__(f"{operation}: {status} {code}: {explained} (request {request_id})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the error picklable: its arguments differ from those of Exception."""
        given = (self.operation, self.status, self.code, self.message)
        return _again, (type(self), given, {name: getattr(self, name) for name in _NAMED})


_NAMED = ("details", "request_id", "retryable", "retry_after")


def _again(class_: type[ApiError], given: tuple[str, int, str, str], named: dict[str, Any]) -> ApiError:
    return class_(*given, **named)


class ConnectionFailedError(TaskExecutorError):
    """Missing answer: connection refused or broken, or no answer within the time limit. `__cause__` is the cause.

    Attributes:
        may_have_been_done: False if the request cannot have reached the service. True if a change may have happened:
            read the state, or repeat the request with the same idempotency key.

    Example:
        try:
            te.configs.delete("mail")
        except ConnectionFailedError as error:
            print("unknown outcome" if error.may_have_been_done else "not sent")
    """

    def __init__(self, message: str, may_have_been_done: bool = True) -> None:
        super().__init__(message, may_have_been_done)
        self.may_have_been_done = may_have_been_done

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class UnexpectedAnswerError(TaskExecutorError):
    """Answer that Task Executor does not send: a redirect, a proxy's page, other JSON, or a body that is too large."""


class NotModifiedError(TaskExecutorError):
    """Unchanged state: the resource still matches `if_none_match`.

    Example:
        try:
            found = te.configs.get("mail", if_none_match=etag(found))
        except NotModifiedError:
            pass
    """


class WaitTimeoutError(TaskExecutorError):
    """Timeout of `wait`; the execution continues. A further `wait` with the same id continues to wait.

    Example:
        try:
            te.wait(job["job_id"], timeout=10)
        except WaitTimeoutError:
            te.jobs.cancel(job["job_id"], if_running="abort")
    """
