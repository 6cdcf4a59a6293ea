"""Delivery of claimed attempts: prepare, and have it sent and concluded (`actors.sending`).

An actor only prepares deliveries; the loop starts each at its instant, and its completion concludes the attempt. No
exception leaves this module, because Dramatiq would acknowledge the message as done.
"""

import logging
import time
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from actors.dispatch.base import NO_HISTORY, History
from actors.dispatch.notification import THREADS_PER_CHANNEL
from actors.judge import line, unexpected
from actors.lateness import Ages, aged, is_news, rest_ms, too_late, waited_too_long
from actors.loop import Delivery, DeliveryLoop
from actors.sending import deliver, fail
from app.catalog.loader import Catalog, Prepared, SecretUnreadableError
from app.catalog.retry_policy import RetryPolicy
from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import TemplateError, UnavailableError
from app.queue.claiming.known_rules import FlowRules
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from app.queue.reading.execution_queries import channels_of, uncertain_for
from brokers.attempt import Attempt, Stage
from brokers.attempt_line import ids_of
from brokers.known_targets import NO_LIMIT, Bound, Targets
from schema.states import EndpointType

log = logging.getLogger(__name__)

_WITH_PAST = frozenset({EndpointType.REDIS_STREAM, EndpointType.NOTIFICATION})


class Deliveries:
    """Starts the delivery of attempts on the process's event loop."""

    def __init__(
        self,
        catalog: Catalog,
        loop: DeliveryLoop,
        database: Database,
        targets: Targets | None = None,
        rules: FlowRules | None = None,
    ) -> None:
        self._catalog = catalog
        self._loop = loop
        self._database = database
        self._targets = targets or Targets()
        self._rules = rules or FlowRules(database)

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Prepare attempts on the calling thread and pass them to the loop."""
        ages = Ages(self._database, attempts)
        prepared = [self._prepare(attempt, ages) for attempt in attempts if attempt.enter(Stage.TAKEN)]
        self._loop.submit([delivery for delivery in prepared if delivery is not None])

    def _prepare(self, attempt: Attempt, ages: Ages) -> Delivery | None:
        """Prepare an attempt, or its failure; None when it was handed back."""
        claim = attempt.claim
        try:
            prepared = self._catalog.prepare(claim.endpoint, claim.endpoint_version, claim.input, claim.config_revision)
            bound = self._targets.bound.get(claim.endpoint)
            is_longer = bound is None or prepared.spec["timeout_ms"] > bound.target.timeout_ms
            if bound is None or is_longer or bound.name != prepared.target:
                bound = self._bind(claim.endpoint, prepared, (claim.endpoint_version, claim.config_revision))
            attempt.target = bound.target
            if prepared.policy.max_age_ms is not None:
                self._look_back(attempt, prepared.policy, ages)
            history = self._past(claim, prepared) if prepared.endpoint_type in _WITH_PAST else NO_HISTORY
        except Exception as error:  # noqa: BLE001 - one odd row must not end the worker thread
            return _unprepared(attempt, error, ages)
        if attempt.target.is_shut and not self._is_probe(attempt, prepared, ages):
            return None
        # It is in the prepared request now, and an attempt may wait long for its answer.
        attempt.claim = attempt.claim._replace(input=None)
        return Delivery(attempt, lambda dispatchers: deliver(dispatchers, attempt, prepared, history))

    def _look_back(self, attempt: Attempt, policy: RetryPolicy, ages: Ages) -> None:
        """Note whether a limit or a breaker may have kept an execution waiting, be it its first attempt."""
        claim = attempt.claim
        # At most since it was planned; nobody has to know more of the many ticks that are made up for late.
        longest = max(claim.late_seconds, (claim.claimed_at - claim.scheduled_at).total_seconds())
        if self._may_have_kept(attempt, longest):
            attempt.claim = claim = aged(ages, claim, policy)
            attempt.has_waited = self._may_have_kept(attempt, claim.late_seconds)

    def _may_have_kept(self, attempt: Attempt, seconds: float) -> bool:
        """Return whether a limit or a breaker may have kept waiting what has been due for so long."""
        rules = self._rules.of(attempt.claim.endpoint)
        is_limited = rules is not None and rules.limits is not None
        return is_limited or attempt.target.has_kept(attempt.claim.claimed_here - seconds)

    def _is_probe(self, attempt: Attempt, prepared: Prepared, ages: Ages) -> bool:
        """Let an attempt be the probe of its target, or hand it back."""
        claim, target = attempt.claim, attempt.target
        if target.take_probe(attempt, claim.endpoint):
            return True
        target.want_probe(claim.endpoint)
        bound = self._targets.bound.get(claim.endpoint)
        if bound is None or bound.name == prepared.target or bound.target.is_shut:
            attempt.release(is_noted=False)
        elif waited_too_long(ages, attempt, prepared.policy):
            verdict = Verdict.fail(too_late(attempt, prepared.policy))
            attempt.conclude(verdict, line(attempt.claim, verdict))
        else:
            # What the newest version leads to must not wait behind what an earlier one does.
            put_off_ms = target.put_off_ms(claim.claimed_at - claim.scheduled_at)
            most_ms = rest_ms(attempt, prepared.policy)
            is_noted = is_news(ages, claim, prepared.policy)
            attempt.release(put_off_ms=round(min(put_off_ms, most_ms)), is_noted=is_noted)
        return False

    def look_up(self, endpoint: str, revision: int) -> None:
        """Bind an endpoint to where it leads by now, as of a catalogue revision; raises UnavailableError.

        Nothing is sent, so whatever else is wrong with its newest version is told by the deliveries of that.
        """
        try:
            newest, as_of = self._catalog.prepare_newest(endpoint, revision)
            bound = self._targets.bound.get(endpoint)
            if bound is None or bound.name != newest.target or newest.spec["timeout_ms"] > bound.target.timeout_ms:
                self._bind(endpoint, newest, as_of)
        except UnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one odd row must not keep others from being looked up
            log.info("where %s leads by now is not known: %s", endpoint, type(error).__name__)

    def _bind(self, endpoint: str, prepared: Prepared, as_of: tuple[int, int]) -> Bound:
        """Note where an endpoint leads."""
        # Records to the same brokers share their connections.
        has_turns = prepared.endpoint_type is not EndpointType.KAFKA
        turns = THREADS_PER_CHANNEL if prepared.endpoint_type is EndpointType.NOTIFICATION else NO_LIMIT
        timeout_ms = prepared.spec["timeout_ms"]
        return self._targets.bind(endpoint, prepared.target, timeout_ms, has_turns=has_turns, as_of=as_of, turns=turns)

    def _past(self, claim: Claim, prepared: Prepared) -> History:
        """Read what the dispatchers of Redis Streams and of notifications have to know."""
        if prepared.endpoint_type is EndpointType.NOTIFICATION:
            # A manual retry takes the configs of its moment: its channels may be others.
            is_anew = claim.max_attempts - claim.attempt + 1 >= prepared.policy.max_attempts
            if is_anew or isinstance(prepared.spec["url"], str):
                return NO_HISTORY
            return History(channels=channels_of(self._database, claim.execution_id, claim.attempt - 1))
        doubt = uncertain_for(self._database, claim.execution_id) if claim.attempt > 1 else None
        since = None if doubt is None else time.monotonic() - doubt.total_seconds()
        return History(prepared.policy.longest_wait_ms / 1000, since)


def _unprepared(attempt: Attempt, error: Exception, ages: Ages) -> Delivery | None:
    """Fail an attempt that cannot be prepared; None when it was handed back, because it may be later or elsewhere."""
    match error:
        case TemplateError():
            failure = DeliveryError("TEMPLATE_RESOLUTION_FAILED", error.message, permanent=True)
        case SecretUnreadableError() if waited_too_long(ages, attempt, error.policy):
            failure = too_late(attempt, error.policy)
        case SecretUnreadableError():
            # The catalogue has told the operator once; all that meet this secret would fill the log.
            attempt.put_off(most_ms=rest_ms(attempt, error.policy))
            return None
        case UnavailableError() | SQLAlchemyError():
            # Nothing was sent: the attempt is not spent.
            claim = attempt.claim
            log.warning("%s handed back: %s", claim.execution_id, explained(error), extra=ids_of(claim))
            attempt.put_off(briefly=isinstance(error, UnavailableError))
            return None
        case _:
            failure = unexpected(error, attempt.claim, may_have_been_delivered=False)
    return Delivery(attempt, lambda _: fail(attempt, failure))
