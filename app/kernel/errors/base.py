"""What every error has: a code, an HTTP status, a message for the client."""

from collections.abc import Sequence
from typing import ClassVar, TypedDict


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
