"""What the views work with: built once per application by `create_app`, found through the current application."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from flask import current_app

from app.api.keys import KeyRing
from app.config import Settings
from app.db import Database

EXTENSION = "task_executor"


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that live as long as the application."""

    settings: Settings
    database: Database
    keys: KeyRing


def services() -> Services:
    """Return the services of the current application."""
    return cast("Services", current_app.extensions[EXTENSION])


def wake(queue: str) -> None:
    """Hint that an execution of `queue` became claimable; it may get lost, and nothing depends on it."""
    cast("Callable[[str], None]", current_app.config["WAKEUP"])(queue)
