"""Services of the views: built once per application by `create_app`, found through the current application."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

import click
from flask import g
from flask.cli import NoAppException

from app.catalog.crypto import SecretBox
from app.catalog.endpoints.inline import InlineEndpoints
from app.kernel import db
from app.kernel.access.console_sessions import ConsoleSessions
from app.kernel.access.key_ring import KeyRing
from app.kernel.access.signing_key import SigningKey
from app.kernel.config import SettingError, Settings
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.tracing.exporting import exporting
from app.kernel.wakeup import Place, WakeupSender
from app.queue.jobs.job_creation import Creator
from app.queue.reading.waits import Waits
from app.web.http.refusal_log import RefusalLog
from app.web.http.unproxied import current_application, current_values
from app.web.readiness import Readiness

if TYPE_CHECKING:
    from app.catalog.check_spec import SpecCheck
    from app.cli.catalog_section import CatalogSection
    from app.feature import Feature
    from app.queue.reading.waiting_reasons import WaitingReason
    from app.web.http.rate_limits import CounterStorage, RateLimit
    from schema.states import EndpointType

APPLICATION_NAME = "te-web"
EXTENSION = "task_executor"
POOL_SIZE = 20
IDLE_SESSION_SECONDS = 3600


class Services:
    """Objects that live as long as the application; the first statement connects."""

    def __init__(self, settings: Settings, features: "Sequence[Feature]", database: Database | None = None) -> None:
        """`database` is open already; None connects as the settings say."""
        self.settings = settings
        self.features = features
        self.database = database or db.connect(
            settings.database_url, pool_size=settings.db_pool_size or POOL_SIZE, application_name=APPLICATION_NAME
        )
        self.readiness = Readiness(self.database)
        self.keys = KeyRing(self.database)
        session_seconds = round(settings.console_session_hours * 3600)
        self.sessions = ConsoleSessions(
            self.database, seconds=session_seconds, idle_seconds=min(session_seconds, IDLE_SESSION_SECONDS)
        )
        self.cursor_key = SigningKey(self.database, "cursors")
        self.refusals = RefusalLog()
        self.shards = settings.shards(cockroach=self.database.is_cockroach)
        self.look_ahead_ms = round(settings.look_ahead_seconds * 1000)
        inline = InlineEndpoints(settings.max_inline_endpoints, round(settings.stuck_timeout_seconds * 1000))
        self.creator = Creator(
            self.database, shards=self.shards, look_ahead_ms=self.look_ahead_ms, inline=inline, hint=wake
        )
        key = settings.secret_encryption_key
        self.secret_box = SecretBox.from_setting(key) if key else None
        self.notifier = WakeupSender(self.database, settings.wakeup_redis_url)
        self.waits = Waits(self.database)
        self.exporting = exporting(settings.traces, "web")

    @cached_property
    def counters(self) -> "CounterStorage":
        # The library takes 0.05 s to import, and no command limits requests.
        from app.web.http.rate_limits import CounterStorage  # noqa: PLC0415

        return CounterStorage.at(self.settings.rate_limit_storage_url)

    @cached_property
    def key_limit(self) -> "RateLimit | None":
        return self._limit("key", self.settings.rate_limit)

    @cached_property
    def bad_key_limit(self) -> "RateLimit | None":
        return self._limit("bad-keys", self.settings.rate_limit_bad_keys)

    def prepare_limits(self) -> None:
        """Build the limits of requests, which the processes that are forked then share."""
        _ = self.key_limit, self.bad_key_limit

    def _limit(self, name: str, rate: str) -> "RateLimit | None":
        from app.web.http.rate_limits import RateLimit  # noqa: PLC0415 - as above

        return RateLimit(name, rate, self.counters) if rate else None

    @property
    def catalog_sections(self) -> "list[CatalogSection]":
        return [section for feature in self.features for section in feature.catalog_sections()]

    @cached_property
    def spec_checks(self) -> "Mapping[EndpointType, SpecCheck]":
        return {type_: check for feature in self.features for type_, check in feature.spec_checks().items()}

    @property
    def reasons(self) -> "list[WaitingReason]":
        return [reason for feature in self.features for reason in feature.reasons()]


class NotConfiguredError(NoAppException):
    """A command needs the service, but a setting is invalid: one line, and a non-zero exit status."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message without usage help, since the command line was correct."""
        click.ClickException.show(self, file)


def services() -> Services:
    """Return the services of the current application; raises NotConfiguredError if a setting is invalid."""
    found: Services | SettingError = current_application().extensions[EXTENSION]
    if isinstance(found, SettingError):
        raise NotConfiguredError(str(found))
    return found


class SecretsDisabledError(UnavailableError):
    """The service was started without TE_SECRET_ENCRYPTION_KEY."""

    retryable = False


def secret_box() -> SecretBox:
    """Return the encryption of secrets; raises SecretsDisabledError without an encryption key."""
    box = services().secret_box
    if box is None:
        raise SecretsDisabledError("Secrets are disabled: the service has no TE_SECRET_ENCRYPTION_KEY.")
    return box


def wake(queue: str, place: Place | None = None) -> None:
    """Send a wake-up for a queue in which an execution became claimable; a wake-up may get lost."""
    held: set[tuple[str, Place | None]] | None = current_values().get("held_hints")
    if held is None:
        services().notifier.hint(queue, place)
    else:
        held.add((queue, place))


@contextmanager
def holding_hints() -> Iterator[set[tuple[str, Place | None]]]:
    """Delay this request's wake-ups until the end, since workers find nothing before the commit."""
    held = g.held_hints = set[tuple[str, Place | None]]()
    try:
        yield held
    finally:
        g.held_hints = None
    for queue, place in held:
        wake(queue, place)
