"""Client of Task Executor: `Client` over requests, and `AsyncClient` over aiohttp (extra `async`)."""

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
