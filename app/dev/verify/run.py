"""Run of the verifier: start, load and faults, wait for the end of all executions, evidence, checks."""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import requests

from app.dev.process.child import ChildError
from app.dev.process.workdir import WorkDir
from app.dev.stack.stack_client import ApiError
from app.dev.terminal import Terminal
from app.dev.verify import arrival_record, stored
from app.dev.verify.ending import ending_reading
from app.dev.verify.ending.ending_rows import Endings
from app.dev.verify.events.event_reader import EventReader
from app.dev.verify.evidence import Evidence, Span
from app.dev.verify.faults.fault_plan import Act, schedule
from app.dev.verify.faults.injector import Injector
from app.dev.verify.faults.supervisor import Supervisor
from app.dev.verify.load_client import LoadClient
from app.dev.verify.promise_checks import run_checks
from app.dev.verify.report import VerifyReport, show, write_json, write_junit
from app.dev.verify.system import LEASE_SECONDS, System, running
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.dev.verify.verify_options import Options
from app.dev.verify.witness import Witness
from app.dev.verify.workflows import workflow_reading
from app.dev.verify.workload import Workload
from app.kernel import db
from app.kernel.errors import UnavailableError
from app.kernel.formats import numbered
from app.kernel.function_types import Stopping
from schema.states import FINAL, ExecutionStatus

_STEP_SECONDS = 0.1
_SHOWN_EVERY_SECONDS = 1.0
_QUIET_PATIENCE_SECONDS = 120.0  # without another end
# After a fault: expiry of a lease, reclaim of its executions, restart of a process.
_RECOVERY = timedelta(seconds=15)


def verify(options: Options, terminal: Terminal) -> int:
    """Run and report; return the exit status: 0 if all checks hold, else 1."""
    if options.database_url is not None:
        stored.refuse_other_work(options.database_url)
    work = WorkDir("verify-logs")
    terminal.heading("Starting")
    with running(options, work.path, terminal) as system:
        run = Run(options, system, work.path, terminal)
        try:
            report = run.report()
        finally:
            system.thaw()
            run.close()
    show(report, terminal)
    if options.json_file:
        write_json(report, options.json_file)
    if options.junit_file:
        write_junit(report, options.junit_file)
    if report.holds:
        work.remove()
    else:
        terminal.line(f"  the logs of the processes: {work.path}")
    return 0 if report.holds else 1


class Run:
    """One run over a started system."""

    def __init__(self, options: Options, system: System, logs: Path, terminal: Terminal) -> None:
        self._options = options
        self._system = system
        self._stack = system.stack
        self._logs = logs
        self._terminal = terminal
        run = secrets.token_hex(4)
        self._endpoints = VerifyEndpoints(run)
        self._client = LoadClient(self._stack.url, self._stack.api.key)
        self._database = db.connect(self._stack.database_url, pool_size=6, application_name="te-verify")
        self._witness = Witness(self._database, run)
        self._events = EventReader(self._stack.url, self._stack.api.key, seed=options.seed)
        self._workload = Workload(
            options,
            self._client,
            self._endpoints,
            self._database,
            system.targets.receiver,
            database_url=self._stack.database_url,
        )
        self._supervisor = Supervisor(self._stack)
        self._injector = Injector(
            schedule(options, self._stack.names, LEASE_SECONDS),
            system,
            self._workload,
            self._endpoints,
            self._supervisor,
            crowd=options.open_deliveries,
        )
        self._shown_at = self._quiet_by = 0.0
        self._finished = 0

    def report(self) -> VerifyReport:
        """Create the load, wait for the end of all executions and return the report."""
        began = time.monotonic()
        with self._terminal.step("endpoints to recording receivers, and a witness in the database"):
            self._witness.install()
            self._system.targets.kafka.create_topic(self._endpoints.topic, partitions=3)
            self._endpoints.register(self._stack.api, self._system.targets)
        self._events.read_from(stored.now(self._database))
        self._terminal.heading(f"Load: {self._options.rate:g} jobs a second for {self._options.duration:g} s")
        self._workload.start()
        self._until(self._workload.has_created_all, "creating jobs")
        self._injector.end()
        for is_over, condition in self._workload.wind_down():
            self._until(is_over, condition)
        self._quiet_by = time.monotonic() + _QUIET_PATIENCE_SECONDS
        self._until(self._is_quiet, "waiting for the end of all executions")
        self._events.stop(threading.TIMEOUT_MAX)
        ended_at = stored.now(self._database)
        self._until(partial(self._has_all_events, ended_at), "waiting for the events")
        with self._terminal.step("reading both sides"):
            evidence = self._evidence()
        return VerifyReport(
            options=self._options,
            results=run_checks(evidence),
            evidence=evidence,
            faults=self._injector.done,
            restarts=self._supervisor.restarts,
            seconds=time.monotonic() - began,
            notes=list(self._notes(evidence)),
        )

    def close(self) -> None:
        """Stop, and remove endpoints, key and witness; the history stays in the database."""
        self._injector.end()
        self._workload.stop()
        self._events.stop(threading.TIMEOUT_MAX)
        with self._removing("the endpoints"):
            self._endpoints.remove(self._stack.api)
        with self._removing("the API key"):
            self._stack.revoke_key(self._stack.api.key)
        with self._removing("the witness"):
            self._witness.remove()
        self._database.close()

    @contextmanager
    def _removing(self, what: str) -> Iterator[None]:
        """Name what stays in the database: the API keeps endpoints with unfinished jobs, as after Ctrl-C."""
        try:
            yield
        except (ApiError, ChildError, requests.RequestException, UnavailableError) as error:
            self._terminal.line(f"  not removed: {what}: {error}")

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._workload.started_at

    def _until(self, is_over: Stopping, what: str) -> None:
        """Step injector and supervisor until a condition holds; an outage of the database only delays the condition."""
        while True:
            self._injector.step(self._elapsed)
            self._supervisor.step(self._elapsed)
            with suppress(UnavailableError):
                if is_over():
                    return
                if time.monotonic() - self._shown_at >= _SHOWN_EVERY_SECONDS:
                    self._shown_at = time.monotonic()
                    self._show(what)
            time.sleep(_STEP_SECONDS)

    def _show(self, what: str) -> None:
        counts, faults = stored.progress(self._database, self._endpoints.names), self._injector.done
        accepted, finished = len(self._client.accepted), _finished(counts)
        text = f"  {self._elapsed:4.0f} s  {what}: {accepted} accepted, {finished} of {sum(counts.values())} finished"
        self._terminal.status(text + (f", {numbered(len(faults), 'fault')}, latest {faults[-1]}" if faults else ""))

    def _is_quiet(self) -> bool:
        """Return whether all executions have ended with their consequences, or no further one ends."""
        # First: the consequence of an end may be an execution.
        is_over = ending_reading.is_all_handled(self._database)
        is_over = is_over and not workflow_reading.open_workflows(self._database, self._endpoints.topic)
        counts = stored.progress(self._database, self._endpoints.names)
        finished = _finished(counts)
        if finished > self._finished:  # a slow machine has a backlog, which is no loss
            self._finished = finished
            self._quiet_by = time.monotonic() + _QUIET_PATIENCE_SECONDS
        return (is_over and finished == sum(counts.values())) or time.monotonic() > self._quiet_by

    def _has_all_events(self, ended_at: datetime) -> bool:
        """Return whether the events before an instant were read, or the time for that is over."""
        with suppress(ApiError, requests.RequestException):
            if self._events.has_all(ended_at):
                return True
        return time.monotonic() > self._quiet_by

    def _evidence(self) -> Evidence:
        targets, names = self._system.targets, self._endpoints.names
        began = datetime.now(UTC) - timedelta(seconds=self._elapsed)
        # The crowd for a hanging receiver must not affect other endpoints.
        faults = [fault for fault in self._injector.done if fault.act is not Act.HANG]
        disturbing = [(began + timedelta(seconds=fault.at), fault.seconds) for fault in faults]
        return Evidence(
            accepted=self._client.accepted,
            contradictions=tuple(self._client.contradictions),
            jobs=stored.job_ids(self._database, names),
            executions=stored.execution_rows(self._database, names),
            attempts=stored.attempt_rows(self._database, names),
            transitions=self._witness.changes(names),
            arrivals=(
                *self._system.sightings.arrivals,
                *arrival_record.kafka(targets.kafka.bootstrap, self._endpoints.topic),
                *arrival_record.redis_stream(targets.valkey.url, self._endpoints.stream),
            ),
            # The run's own PostgreSQL and the receivers read the same clock.
            clock_slack=stored.clock_slack(self._database) if self._options.database_url else timedelta(0),
            conduct=self._client.conduct(self._supervisor.unexpected),
            locks=tuple(self._injector.locks),
            leaks=tuple(self._leaks()),
            limits=self._endpoints.limits,
            breaker_changes=stored.breaker_changes(self._database, began),
            breakers=stored.breakers(self._database, names),
            endings=self._endings(),
            workflows=workflow_reading.workflows_of_run(
                self._database, self._endpoints.topic, names, self._workload.workflows.accepted
            ),
            rolled_back=frozenset(self._workload.transactions.rolled_back),
            events=tuple(self._events.seen),
            queue_pauses={self._endpoints.queued: tuple(self._workload.queue_pauses.spans)},
            disturbed=tuple(Span(since, since + timedelta(seconds=lasts) + _RECOVERY) for since, lasts in disturbing),
        )

    def _endings(self) -> Endings:
        endpoints = self._endpoints
        return Endings(
            callbacks=endpoints.callbacks,
            called=ending_reading.callback_rows(self._database, endpoints.names),
            letters=ending_reading.letter_rows(self._database, endpoints.names),
            owed=self._workload.redriving.owed,
            redrives=ending_reading.redrive_rows(self._database, endpoints.names),
            rules=endpoints.rules,
            messages=ending_reading.message_rows(self._database, list(endpoints.rules)),
        )

    def _leaks(self) -> Iterator[str]:
        """Search rows and logs for the secret."""
        yield from stored.rows_with(self._database, self._endpoints.canary)
        for log in sorted(self._logs.glob("*.log")):
            with log.open(errors="replace") as lines:
                if any(self._endpoints.canary in line for line in lines):
                    yield f"the log {log.name}"

    def _notes(self, evidence: Evidence) -> Iterator[str]:
        yield "late: arrival of the first message minus the scheduled time, over the whole run, outages included"
        yield "late: without the executions of limited endpoints and of a paused queue, which wait by design"
        yield f"a worker's lease lasts {LEASE_SECONDS:g} s here, so that leases expire even in a short run"
        yield from self._injector.notes()
        yield f"connections of the reader of events: {self._events.connections}"
        yield f"workflows: {len(evidence.workflows.rows):,}; their jobs: {len(evidence.workflows.jobs):,}"
        if self._workload.pauses:
            yield f"pauses and resumes of repeating jobs: {self._workload.pauses:,}"
        if self._options.database_url is not None:
            slack = evidence.clock_slack.total_seconds() * 1000
            yield f"this machine's clock may be {slack:.1f} ms behind the database's; early means by more than that"
        if evidence.transitions is None:
            yield "no witness on this engine: the order of states and stale writes were judged by rows only"


def _finished(counts: Mapping[ExecutionStatus, int]) -> int:
    return sum(number for status, number in counts.items() if status in FINAL)
