"""Client of Task Executor: `Client` over requests, and `AsyncClient` over aiohttp (extra `async`).

`errors` has a class for each error code, `models` the types of bodies and answers, `transaction` enqueues in your own
database transaction. The logger `task_executor_client` reports retries at INFO.

Example:
    from task_executor_client import Client, errors

    with Client("https://te.example.org", key) as te:
        job = te.jobs.create(endpoint="mail", trigger="IMMEDIATE", input={"to": "a@example.org"})
        try:
            te.jobs.cancel(job["job_id"])
        except errors.ExecutionNotCancellableError:
            print(te.wait(job["job_id"])["status"])
"""

from typing import TYPE_CHECKING, Any

from . import errors, models
from .answer import etag, replayed, request_id
from .client import Client
from .exchange import Retries
from .failures import (
    ApiError,
    ConnectionFailedError,
    NotModifiedError,
    TaskExecutorError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from .pages import AsyncPages, Page, Pages
from .registration import Change, Declared, RegistrationConflictError

if TYPE_CHECKING:
    from .async_client import AsyncClient

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "Change",
    "Client",
    "ConnectionFailedError",
    "Declared",
    "NotModifiedError",
    "Page",
    "Pages",
    "RegistrationConflictError",
    "Retries",
    "TaskExecutorError",
    "UnexpectedAnswerError",
    "WaitTimeoutError",
    "errors",
    "etag",
    "models",
    "replayed",
    "request_id",
]


def __getattr__(name: str) -> Any:
    """Import AsyncClient on first use, because aiohttp is only installed with the extra `async`."""
    if name == "AsyncClient":
        from .async_client import AsyncClient  # noqa: PLC0415

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
