"""Preparation of claimed attempts for the delivery loop, which sends and completes them (`actors.sending`).

No exception leaves this module, because Dramatiq would acknowledge the message as done.
"""

import logging
import time
from collections.abc import Sequence
from heapq import nsmallest

from sqlalchemy.exc import SQLAlchemyError

from actors.dispatch.base import NO_HISTORY, History
from actors.lateness import expires_here, rest_ms, too_late, waited_too_long
from actors.loop import Delivery, DeliveryLoop
from actors.sending import complete, unexpected
from app.catalog.loader import Catalog, Prepared, SecretUnreadableError
from app.catalog.retry_policy import RetryPolicy
from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import TemplateError, UnavailableError
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from app.queue.reading.earlier_attempts import actor_past, channels_of, uncertain_for
from brokers.attempt import Attempt, Stage
from brokers.attempt_line import ids_of
from brokers.flow_state import FlowState
from brokers.sharing.bindings import Bound
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType

log = logging.getLogger(__name__)

MAX_RESOLVED = 100
"""Maximum number of endpoints behind open breakers that are resolved again at one poll."""
_WITH_PAST = frozenset({EndpointType.REDIS_STREAM, EndpointType.NOTIFICATION, EndpointType.ACTOR})
# Deliveries to the same Redis or Kafka brokers share their connections; actors have places in processes.
_WITHOUT_TURNS = frozenset({EndpointType.REDIS_STREAM, EndpointType.KAFKA, EndpointType.ACTOR})


class Deliveries:
    """Prepares attempts and starts their delivery on the process's event loop."""

    def __init__(self, catalog: Catalog, loop: DeliveryLoop, database: Database, process: WorkerProcess) -> None:
        self._catalog = catalog
        self._loop = loop
        self._database = database
        self._rules = process.rules
        self._breakers = process.breakers
        self._bindings = process.bindings
        self._resolved: dict[str, tuple[int, int]] = {}  # endpoints behind open breakers, with the revisions

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Prepare attempts on the calling thread and pass them to the loop."""
        prepared = [self._prepare(attempt) for attempt in attempts if attempt.enter(Stage.TAKEN)]
        self._loop.submit([delivery for delivery in prepared if delivery is not None])

    def _prepare(self, attempt: Attempt) -> Delivery | None:
        """Prepare an attempt, or its error; None if it was released."""
        claim = attempt.claim
        try:
            prepared = self._catalog.prepare(claim.endpoint, claim.endpoint_version, claim.input, claim.config_revision)
            bound = self._bindings.bound.get(claim.endpoint)
            is_longer = bound is None or prepared.spec["timeout_ms"] > bound.target.timeout_ms
            if bound is None or is_longer or bound.name != prepared.target:
                bound = self._bind(claim.endpoint, prepared, (claim.endpoint_version, claim.config_revision))
            attempt.target = bound.target
            if claim.expires_at is not None:
                attempt.has_waited = self._may_have_waited(attempt, prepared.policy)
            history = self._past(claim, prepared) if prepared.endpoint_type in _WITH_PAST else NO_HISTORY
            if attempt.target.is_open and not self._is_probe(attempt):
                return None
        except Exception as error:  # noqa: BLE001 - one invalid row must not end the worker thread
            return _unprepared(attempt, error)
        # The prepared request contains the input, and an attempt may wait long for its answer.
        attempt.claim = attempt.claim._replace(input=None)
        return Delivery(attempt, prepared, history)

    def _may_have_waited(self, attempt: Attempt, policy: RetryPolicy) -> bool:
        """Return whether a limit or a breaker may have delayed an execution since its first due time."""
        rules = self._rules.of(attempt.claim.endpoint)
        is_limited = rules is not None and rules.limits is not None
        due_here = expires_here(attempt.claim) - (policy.max_age_ms or 0) / 1000
        return is_limited or attempt.target.has_kept(due_here)

    def _is_probe(self, attempt: Attempt) -> bool:
        """Make an attempt the probe of its target, or release it; raises UnavailableError."""
        claim = attempt.claim
        if self._breakers.probe(attempt.target, attempt, claim.endpoint):
            return True
        bound = self._bindings.bound.get(claim.endpoint)
        if bound is None or bound.target.is_open:
            attempt.release(is_noted=False)
        elif waited_too_long(attempt):
            complete(attempt, Verdict.fail(too_late(attempt)))
        else:
            # Executions of the newest version, with another target, must not wait behind those of an earlier version.
            attempt.defer(most_ms=rest_ms(attempt), is_noted=False)
        return False

    def follow(self, state: FlowState) -> None:
        """Bind endpoints behind open breakers to the targets of their newest versions, without claiming executions.

        Each call handles a part of them: each endpoint once, and again after each new revision of endpoints, configs
        and secrets. Raises UnavailableError.
        """
        revisions, behind = (state.revision, state.catalog_revision), self._bindings.behind_open()
        self._resolved = {endpoint: self._resolved[endpoint] for endpoint in behind if endpoint in self._resolved}
        resolved_at = {endpoint: self._resolved.get(endpoint, (-1, -1)) for endpoint in behind}
        due = (endpoint for endpoint, at in resolved_at.items() if at != revisions)
        for endpoint in nsmallest(MAX_RESOLVED, due, key=resolved_at.__getitem__):
            try:
                self._bind(endpoint, *self._catalog.prepare_newest(endpoint, state.catalog_revision))
            except UnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - one invalid row must not affect other endpoints
                log.info("cannot resolve the target of endpoint %s: %s", endpoint, type(error).__name__)
            self._resolved[endpoint] = revisions

    def _bind(self, endpoint: str, prepared: Prepared, as_of: tuple[int, int]) -> Bound:
        """Record the target of an endpoint."""
        has_turns = prepared.endpoint_type not in _WITHOUT_TURNS
        timeout_ms = prepared.spec["timeout_ms"]
        return self._bindings.bind(endpoint, prepared.target, timeout_ms, has_turns=has_turns, as_of=as_of)

    def _past(self, claim: Claim, prepared: Prepared) -> History:
        """Read the earlier attempts for the dispatchers of Redis Streams, notifications and actors."""
        if prepared.endpoint_type is EndpointType.ACTOR:
            if claim.attempt == 1:
                return NO_HISTORY
            return History(**actor_past(self._database, claim.execution_id)._asdict())
        if prepared.endpoint_type is EndpointType.NOTIFICATION:
            # A manual retry uses the current configs, and so perhaps other channels.
            is_manual = claim.max_attempts - claim.attempt + 1 >= prepared.policy.max_attempts
            if is_manual or isinstance(prepared.spec["url"], str):
                return NO_HISTORY
            return History(channels=channels_of(self._database, claim.execution_id, claim.attempt - 1))
        doubt = uncertain_for(self._database, claim.execution_id) if claim.attempt > 1 else None
        since = None if doubt is None else time.monotonic() - doubt.total_seconds()
        return History(prepared.policy.longest_wait_ms / 1000, since)


def _unprepared(attempt: Attempt, error: Exception) -> Delivery | None:
    """Return the failure of an attempt that cannot be prepared; None if it was released for a later or another try."""
    match error:
        case TemplateError():
            failure = DeliveryError("TEMPLATE_RESOLUTION_FAILED", error.message, permanent=True)
        case SecretUnreadableError() if waited_too_long(attempt):
            failure = too_late(attempt)
        case SecretUnreadableError():
            # The catalog has logged the secret once; a line for each attempt would fill the log.
            attempt.defer(most_ms=rest_ms(attempt), reason=ChangeReason.SECRET_UNREADABLE)
            return None
        case UnavailableError() | SQLAlchemyError():
            # Nothing was sent: the attempt is not spent.
            claim = attempt.claim
            log.warning("execution %s released unsent: %s", claim.execution_id, explained(error), extra=ids_of(claim))
            attempt.defer(briefly=isinstance(error, UnavailableError))
            return None
        case _:
            failure = unexpected(error, attempt.claim, may_have_been_delivered=False)
    return Delivery(attempt, failure)
