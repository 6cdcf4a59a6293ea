"""What the views work with: built once per application by `create_app`, found through the current application."""

from dataclasses import dataclass
from typing import cast

from flask import current_app

from app.access.key_ring import KeyRing
from app.api.http.rate_limits import RateLimit
from app.catalog.crypto import SecretBox
from app.config import Settings
from app.db import Database
from app.errors import UnavailableError
from app.jobs.creation import Creator
from app.wakeup import Notifier

EXTENSION = "task_executor"


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that live as long as the application."""

    settings: Settings
    database: Database
    keys: KeyRing
    key_limit: RateLimit | None
    bad_key_limit: RateLimit | None
    creator: Creator
    shards: int
    look_ahead_ms: int
    secret_box: SecretBox | None
    notifier: Notifier


def services() -> Services:
    """Return the services of the current application."""
    return cast("Services", current_app.extensions[EXTENSION])


class SecretsDisabledError(UnavailableError):
    """The service was started without TE_SECRET_ENCRYPTION_KEY."""

    retryable = False


def secret_box() -> SecretBox:
    """Return what encrypts secrets; raises SecretsDisabledError when the service has no key for it."""
    box = services().secret_box
    if box is None:
        raise SecretsDisabledError("This service has no TE_SECRET_ENCRYPTION_KEY, so it cannot keep secrets.")
    return box


def wake(queue: str) -> None:
    """Hint that an execution of `queue` became claimable; it may get lost, and nothing depends on it."""
    services().notifier.hint(queue)
