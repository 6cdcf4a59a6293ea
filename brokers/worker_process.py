"""Worker process: its identity, its lease, its claims in flight, its start and its end."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from app.feature import Feature, completion_handlers
from app.features.breakers.look_ups import LookUps
from app.features.breakers.moves import Moves
from app.features.breakers.rules import BreakerSettings
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.startup import wait_until_ready
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, Kind
from app.kernel.processes.region import REGION
from app.kernel.processes.worker_commands import CommandKind
from app.queue.claiming.admission import AdmissionRule
from app.queue.claiming.endpoint_rules import Pulse
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Lane
from app.queue.ending.outbox_processor import OutboxProcessor
from brokers import worker_metrics
from brokers.command_handler import Commands
from brokers.draining import Draining
from brokers.finalizer import Finalizer
from brokers.known_targets import Targets
from brokers.lease_heartbeat import Heartbeat
from brokers.outbox_thread import OutboxThread
from brokers.rules_thread import FlowThread
from brokers.sharing.connections import BreakerAdmission, ConnectionAdmission
from brokers.sharing.fair_shares import Shares
from brokers.watchdog import Watchdog
from brokers.worker_breakers import Breakers
from brokers.worker_settings import WorkerSettings

log = logging.getLogger(__name__)

# How much longer than the lease a thread may be silent: for the database the lease is over first.
SILENCE_LEASES = 4 / 3
GIVE_UP_SECONDS = 5.0  # the longest that a process without a lease may take to end
EXIT_LEASE_LOST = 75  # EX_TEMPFAIL of sysexits.h: a supervisor should start the process again


class WorkerProcess:
    """One worker process: what its consumers share, and the order in which it starts and leaves.

    `open` registers it under an id that is new at each boot, and starts its threads: the finalizer writes results, the
    heartbeat renews the lease, the watchdog looks after the others. From then on consumers claim while `may_claim`, and
    `shares` bounds how much over all of them, and who gets it. It ends in one of two ways:

    - `drain`, then `close`: nothing more is claimed, started deliveries may end, and what is known is written.
    - `give_up`, once the lease is lost or a thread has died: exit at once and write nothing, because other workers may
      run the same executions by now.

    `flow` keeps `rules` and `targets` new. `on_revision` is told the catalogue revision that comes with each claim, and
    `look_up(endpoint, catalog_revision)` is asked on its thread to bind an endpoint to where it leads by now.
    """

    def __init__(
        self,
        database: Database,
        lease_database: Database,
        settings: WorkerSettings,
        *,
        on_revision: Callable[[int], None],
        values: Values | None = None,
        features: Sequence[Feature] = (),
    ) -> None:
        self.database = database
        self._features = features
        self.settings = settings
        self.worker_id = ids.worker_id()
        self._host = socket.gethostname()
        self.values = values or Values()
        self.draining = threading.Event()
        self.leaving = Draining(self)
        self.queues: frozenset[str] = frozenset()
        self.on_revision = on_revision
        self.look_up: Callable[[str, int], None] = lambda _endpoint, _revision: None
        self._lease_database = lease_database
        self._on_unknown_queue: Callable[[], None] = lambda: None
        self._wakers: dict[str, Callable[[Sequence[Lane], datetime | None], None]] = {}
        self._drainers: list[Callable[[], None]] = []
        self._giving_up = threading.Lock()  # for good
        self.publish: Callable[[], object] = lambda: None  # what was counted; the last time before it gives up
        self._make_claims_and_results()
        self._make_flow()
        self._make_signs_of_life()
        worker_metrics.offer(self)

    def _make_claims_and_results(self) -> None:
        self.shares = Shares(
            self.settings.capacity,
            stuck_seconds=self.settings.stuck_seconds,
            is_leased=lambda: self.heartbeat.is_valid(),  # noqa: PLW0108 - there is none yet
        )
        self.rules = FlowRules(self.database)
        self.finalizer = Finalizer(self.database, self.worker_id, self.values, self.rules)
        self.finalizer.outcomes.tell_handed_back = lambda back: self.wake(back.queue, (back.lane,), back.run_at)
        handlers = completion_handlers(self._features)
        processor = OutboxProcessor(self.database, handlers=handlers, values=self.values)
        self.outbox = OutboxThread(processor, wake=self.wake)
        self.finalizer.outcomes.tell_ends = self.outbox.tell

    def _make_flow(self) -> None:
        self.flow = FlowThread(self.database, self.worker_id, self.rules, on_change=self.wake)
        self.targets = Targets(self.settings.connections_per_host, self._breaker_of, wake=self.flow.hurry)
        self.breakers = Breakers(self.database, self.worker_id, self._host, self.targets, self.values)
        self._look_ups = LookUps(Moves(self.database))
        self.flow.on_pulse(self._pulsed)
        self.flow.on_pulse(self._look_for_moves)

    def _make_signs_of_life(self) -> None:
        self.heartbeat = Heartbeat(
            self._lease_database,
            self.worker_id,
            lease_seconds=self.settings.lease_seconds,
            in_flight=lambda: len(self.shares),
            on_lost=self.give_up,
        )
        commands = Commands(self.database, self.worker_id, {CommandKind.DRAIN: self.leaving.begin})
        component = Component(REGION, Kind.WORKER, self.worker_id)
        self._health = HealthThread(self.database, component, carry=commands.beat)
        self.watchdog = Watchdog(self.settings.lease_seconds * SILENCE_LEASES, self.give_up)
        self.watchdog.watch("heartbeat", self.heartbeat)

    def open(self, queues: Collection[str]) -> None:
        """Wait for the database, register this process and start its threads.

        Raises app.kernel.db.startup.NotReadyError when the database cannot be reached for the startup timeout.
        """
        wait_until_ready(self.database, self.settings.startup_timeout_seconds, stopping=self.draining.is_set)
        registered_at = time.monotonic()
        self.queues = frozenset(queues)
        worker_lease.register(
            self._lease_database,
            worker_id=self.worker_id,
            host=self._host,
            pid=os.getpid(),
            queues=sorted(queues),
            capacity=self.settings.capacity,
            lease_ms=int(self.settings.lease_seconds * 1000),
        )
        self.rules.refresh()  # before the first claim, which may come before the first pulse
        self.breakers.look()
        self.finalizer.start()
        self.outbox.start()
        self.heartbeat.granted(registered_at)
        self.heartbeat.start()
        self.watchdog.start()
        self.flow.start()
        self._health.start()
        log.info("worker %s claims from %s", self.worker_id, ", ".join(sorted(queues)))

    def serve(self, queue: str) -> None:
        """Note, and write for all to see, that this process serves one more queue; raises UnavailableError."""
        queues = self.queues | {queue}
        worker_lease.serve(self.database, self.worker_id, queues)
        self.queues = queues
        log.info("worker %s serves %s as well", self.worker_id, queue)

    def on_unknown_queue(self, call: Callable[[], None]) -> None:
        """Call `call` when a hint names a queue that this process does not serve; it must not block."""
        self._on_unknown_queue = call

    def admission(self) -> list[AdmissionRule]:
        """Build the rules for the consumer of one queue, in the order in which they are asked."""
        rules = [rule for feature in self._features for rule in feature.admission(self.rules, self.settings.capacity)]
        breakers = BreakerAdmission(self.targets, self.shares)
        return [*rules, breakers, ConnectionAdmission(self.targets, self.shares, self.rules)]

    def _breaker_of(self, endpoint: str) -> BreakerSettings | None:
        rules = self.rules.of(endpoint)
        return None if rules is None else rules.breaker

    def _pulsed(self, pulse: Pulse) -> None:
        # Whoever claims may have read the rules before this thread.
        changed = self.targets.follow(self.rules.revision)
        self.targets.forget(tuple(self.shares.slots))
        changed = self.breakers.learn(pulse.notes) or changed
        if self.breakers.act() or changed:
            self.wake()

    def _look_for_moves(self, pulse: Pulse) -> None:
        targets, shut = self.targets, self.targets.shut
        if self._look_ups.go_on(targets.behind_shut(), self.rules.revision, pulse.catalog_revision, self.look_up):
            self.flow.hurry()
        if targets.shut is not shut:
            self.wake()

    def may_claim(self) -> bool:
        """Return whether claiming makes sense now; the claim itself checks the lease in the database."""
        return not (self.draining.is_set() or self.finalizer.is_backed_up) and self.heartbeat.is_valid()

    def on_wake(self, queue: str, wake: Callable[[Sequence[Lane], datetime | None], None]) -> None:
        """Let `wake(queue, lanes, since)` reach the consumer of a queue."""
        self._wakers[queue] = wake

    def wake(self, queue: str | None = None, lanes: Sequence[Lane] = (), since: datetime | None = None) -> None:
        """Wake the consumer of a queue, or all of them: something is due in these lanes, or may be in any.

        It has been due `since` then, for a short while unless that is said.
        """
        if queue is not None and queue not in self.queues:
            self._on_unknown_queue()
        for name, wake in list(self._wakers.items()):
            if queue in (None, name):
                wake(lanes, since)

    def on_freed(self, queue: str, tell: Callable[[Sequence[tuple[str, str]]], None]) -> None:
        """Tell the consumer of a queue of which endpoints and limit keys executions ended that made others wait."""
        self.finalizer.outcomes.tell_freed[queue] = tell

    def on_drain(self, drain: Callable[[], None]) -> None:
        """Call `drain` when this process is to take up nothing more; it must not block, and may be called again."""
        self._drainers.append(drain)

    def drain(self) -> None:
        """Stop claiming, at once, and let nothing wait that was not sent."""
        self.draining.set()
        self.wake()
        for drain in self._drainers:
            drain()

    def close(self) -> None:
        """Let started deliveries end, write what is known, and write the last heartbeat."""
        self.drain()
        self.leaving.is_told.set()
        deadline = time.monotonic() + self.settings.shutdown_timeout_seconds
        if not self.shares.wait_until_empty(self.settings.shutdown_timeout_seconds):
            log.warning("%d deliveries are unfinished after the shutdown timeout", len(self.shares))
        if not self.finalizer.stop(max(1.0, deadline - time.monotonic())):
            log.warning("some results could not be written before the process ended")
        self.leaving.stop()
        self.outbox.flush()
        self.outbox.stop()
        self.flow.stop()
        self.watchdog.stop()
        self._health.stop()
        self.heartbeat.stop(self.settings.lease_seconds)
        self.database.close()
        self._lease_database.close()
        log.info("worker %s left: %s", self.worker_id, self.values.totals())

    def give_up(self, reason: str) -> None:
        """Exit without writing anything: others take over its claims once its lease has run out."""
        if not self._giving_up.acquire(blocking=False):
            return  # another thread has found it out at the same moment, and is ending the process
        # The log may be a pipe that nobody reads: what follows may then wait for ever.
        rescue = threading.Timer(GIVE_UP_SECONDS, os._exit, [EXIT_LEASE_LOST])
        rescue.daemon = True
        rescue.start()
        log.critical("worker %s lost its lease and exits: %s", self.worker_id, reason)
        self.drain()
        self.finalizer.abandon()
        self.values.add(series.LOST_LEASES)
        self.publish()
        logging.shutdown()
        # Not sys.exit: this is not the main thread, and deliveries in flight must not be able to conclude.
        os._exit(EXIT_LEASE_LOST)
