"""Worker process: the parts of a process and their order at its start and end."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence

from app.feature import Feature, completion_handlers
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.startup import check_ready, wait_until_ready
from app.kernel.function_types import Call, Hint, nobody
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.kernel.processes.region import REGION
from app.queue.claiming.admission import AdmissionRule
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.ending.outbox_processor import OutboxProcessor
from brokers.discovery import horizon_ms
from brokers.draining import Draining
from brokers.finalizer import Finalizer
from brokers.flow_state import FlowState, read_flow_state
from brokers.idle_check import IdleCheck
from brokers.inbox import Inboxes
from brokers.lease_heartbeat import Heartbeat, Lease, Watchdog
from brokers.outbox_thread import OutboxThread
from brokers.outcomes import Outcomes
from brokers.rules_thread import FlowThread
from brokers.sharing.actor_places import ActorAdmission, ActorProcesses
from brokers.sharing.bindings import Bindings
from brokers.sharing.fair_shares import Shares
from brokers.sharing.target_admission import TargetAdmission
from brokers.worker_breakers import WorkerBreakers
from brokers.worker_metrics import offer_metrics
from brokers.worker_settings import WorkerSettings
from schema.states import EndpointType

log = logging.getLogger(__name__)

# How many leases a thread may be silent: the lease in the database ends first.
SILENCE_LEASES = 4 / 3
GIVE_UP_SECONDS = 5.0  # longest time in which a process without a lease ends
EXIT_LEASE_LOST = 75  # EX_TEMPFAIL of sysexits.h: a supervisor should start the process again


class WorkerProcess:
    """One worker process: objects shared by its consumers, start and end.

    `open` registers it under an id that is new at each boot, and starts its threads: the finalizer writes results, the
    heartbeat renews the lease, the watchdog checks the threads. Then consumers claim, bounded by `shares`. It ends in
    one of two ways:

    - `drain`, then `close`: nothing more is claimed, started deliveries end, and results are written.
    - `give_up`, once the lease is lost or a thread has died: exit at once and write nothing, because other workers may
      run the same executions by now.

    `flow` keeps `rules`, `breakers` and `bindings` current. `on_revision` gets the catalog revision of each claim.
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
        hint: Hint = nobody,
        publish: Call | None = None,
    ) -> None:
        """`hint` wakes workers in all processes; `publish` writes the metrics for the last time before a give-up."""
        self.database = database
        self._features = features
        self._hint = hint
        self.settings = settings
        self.worker_id = ids.worker_id()
        self.values = values or Values()
        self.draining = threading.Event()
        self.leaving = Draining(self)
        self.queues: frozenset[str] = frozenset()
        self.on_revision = on_revision
        self.inboxes = Inboxes(self.values)
        interval, ahead = settings.poll_interval_ms / 1000, settings.claim_ahead_ms / 1000
        self.idle_check = IdleCheck(
            database, self.inboxes, interval_seconds=interval, horizon_ms=horizon_ms(interval, ahead)
        )
        self.lease = Lease(settings.lease_seconds)
        self.actors: ActorProcesses | None = None
        self._lease_database = lease_database
        self._drainers: list[Call] = []
        self._enders: list[Call] = []
        self._giving_up = threading.Lock()  # for good
        self._publish = publish
        self._make_claims_and_results()
        self._make_flow()
        self._make_heartbeats()
        offer_metrics(self.values, self.shares, self.finalizer)

    def _make_claims_and_results(self) -> None:
        settings, inboxes = self.settings, self.inboxes
        self.shares = Shares(settings.capacity, inboxes, stuck_seconds=settings.stuck_seconds, lease=self.lease)
        self.rules = FlowRules(self.database)
        handlers = completion_handlers(self._features)
        processor = OutboxProcessor(self.database, handlers=handlers, values=self.values)
        self.outbox = OutboxThread(processor, inboxes, self._hint)
        outcomes = Outcomes(self.database, self.worker_id, self.values, self.rules, inboxes=inboxes, outbox=self.outbox)
        self.finalizer = Finalizer(outcomes, self.values)

    def _make_flow(self) -> None:
        self.breakers = WorkerBreakers(self.database, self.worker_id, self.values)
        self.flow = FlowThread(self.database, self.worker_id, self.rules, self.breakers, self.inboxes)
        self.bindings = Bindings(self.breakers, self.rules, self.settings.connections_per_host)
        self._seen_change: object = None
        self.flow.on_poll(self._polled)

    def _make_heartbeats(self) -> None:
        self.heartbeat = Heartbeat(
            self._lease_database, self.worker_id, lease=self.lease, in_flight=self.shares, on_lost=self.give_up
        )
        component = Component(REGION, ProcessKind.WORKER, self.worker_id)
        self._health = HealthThread(
            self.database, component, carry=self.leaving.obey, beat_seconds=self.settings.beat_seconds
        )
        self.watchdog = Watchdog(self.settings.lease_seconds * SILENCE_LEASES, self.give_up)
        self.watchdog.watch("heartbeat", self.heartbeat)

    def open(self, queues: Collection[str]) -> None:
        """Wait for the database, register this process and start its threads.

        Raises app.kernel.db.startup.NotReadyError when the database cannot be reached for the startup timeout.
        """
        self.queues = frozenset(queues)
        wait_until_ready(
            self.database, self.settings.startup_timeout_seconds, stopping=self.draining.is_set, check=self._register
        )
        self.finalizer.start()
        self.outbox.start()
        self.heartbeat.start()
        self.watchdog.start()
        self.flow.start()
        self._health.start()
        log.info("worker %s claims from %s", self.worker_id, ", ".join(sorted(queues)))

    def _register(self, database: Database) -> None:
        """Check the database and register this process; repeated until the database can be reached."""
        check_ready(database)
        registered_at = time.monotonic()
        worker_lease.register(
            self._lease_database,
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=sorted(self.queues),
            capacity=self.settings.capacity,
            lease_ms=int(self.settings.lease_seconds * 1000),
        )
        self.heartbeat.granted(registered_at)
        self.rules.refresh()  # before the first claim, which may come before the first poll
        self.breakers.learn(read_flow_state(database, self.worker_id).breakers)

    def serve(self, queue: str) -> None:
        """Serve one more queue, and write that to the database; raises UnavailableError."""
        queues = self.queues | {queue}
        worker_lease.serve(self.database, self.worker_id, queues)
        self.queues = queues
        log.info("worker %s serves %s as well", self.worker_id, queue)

    def admission(self, queue: str) -> list[AdmissionRule]:
        """Build the rules for the consumer of a queue, in their order."""
        rules = [rule for feature in self._features for rule in feature.admission(self.rules, self.settings.capacity)]
        if self.actors is not None:
            rules.append(ActorAdmission(self.actors, self.shares, queue == EndpointType.ACTOR.queue))
        return [*rules, TargetAdmission(self.breakers, self.bindings, self.shares, self.rules)]

    def listen_to_actors(self) -> ActorProcesses:
        """Let processes with actors connect to this process; called before its consumers exist."""
        from app.queue.jobs.following_jobs import Placing  # noqa: PLC0415 - few workers listen to actors
        from brokers.actor_outcomes import ActorOutcomes  # noqa: PLC0415

        self.actors = ActorProcesses()
        placing = Placing(self.settings.shards, self.settings.look_ahead_ms)
        self.finalizer.outcomes.of_actors = ActorOutcomes(self.database, self.worker_id, placing, self.inboxes)
        return self.actors

    def _polled(self, _state: FlowState) -> None:
        self.bindings.follow()
        self.bindings.forget(self.shares.slots)
        self.breakers.update()
        before, self._seen_change = self._seen_change, self.breakers.change
        if before is not self._seen_change:
            self.inboxes.wake()

    def on_drain(self, drain: Call) -> None:
        """Call `drain` when this process stops claiming; it must not block, and may be called again."""
        self._drainers.append(drain)

    def on_end(self, end: Call) -> None:
        """Call `end` once unfinished deliveries get no more time: it ends them, so that nothing is sent any more."""
        self._enders.append(end)

    def drain(self) -> None:
        """Stop claiming at once, and release unsent claims."""
        self.draining.set()
        self.inboxes.wake()
        for drain in self._drainers:
            drain()

    def close(self) -> None:
        """Wait for started deliveries, write results, and write the last heartbeat."""
        self.drain()
        self.leaving.is_told.set()
        deadline = time.monotonic() + self.settings.shutdown_timeout_seconds
        if not self.shares.wait_until_empty(self.settings.shutdown_timeout_seconds):
            log.warning(
                "unfinished deliveries after the shutdown timeout: %d; schedulers reclaim them", len(self.shares)
            )
        for end in self._enders:
            end()
        if not self.finalizer.stop(max(1.0, deadline - time.monotonic())):
            log.warning(
                "could not write all results before the end of the process; schedulers reclaim their executions"
            )
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
        """Exit without writing anything: other workers get its claims once its lease has ended."""
        if not self._giving_up.acquire(blocking=False):
            return  # another thread ends the process already
        # The rest may hang, for example if the log is a pipe without a reader.
        rescue = threading.Timer(GIVE_UP_SECONDS, os._exit, [EXIT_LEASE_LOST])
        rescue.daemon = True
        rescue.start()
        log.critical("worker %s lost its lease and exits: %s", self.worker_id, reason)
        self.drain()
        self.finalizer.abandon()
        self.values.add(series.LOST_LEASES)
        if self._publish is not None:
            self._publish()
        logging.shutdown()
        # Not sys.exit: this is not the main thread, and deliveries in flight must not complete.
        os._exit(EXIT_LEASE_LOST)
