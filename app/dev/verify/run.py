"""Run of the verifier: start, load and faults, quiet, evidence, judgement."""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import requests

from app.dev.process.child import ChildError
from app.dev.process.workdir import WorkDir
from app.dev.stack.stack_client import Api, ApiError
from app.dev.terminal import Terminal
from app.dev.verify import arrival_record, stored
from app.dev.verify.evidence import Evidence
from app.dev.verify.faults.fault_plan import disturbs, schedule
from app.dev.verify.faults.injector import Injector
from app.dev.verify.faults.repertoire import Repertoire
from app.dev.verify.flow.flow_evidence import FlowEvidence, Span
from app.dev.verify.ledger import Ledger
from app.dev.verify.promise_checks import run_checks
from app.dev.verify.report import VerifyReport, show, write_json, write_junit
from app.dev.verify.system import LEASE_SECONDS, System, running, thaw
from app.dev.verify.verify_definitions import Catalogue
from app.dev.verify.verify_options import Options
from app.dev.verify.witness import Witness
from app.dev.verify.workload import Workload
from app.kernel import db
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Stopping
from schema.states import FINAL

_TURN_SECONDS = 0.05
_SHOWN_EVERY_SECONDS = 1.0
_QUIET_PATIENCE_SECONDS = 120.0
# After a fault: until a lease has run out, what it held is taken back, and a process has been started anew.
_RECOVERY = timedelta(seconds=15)


def verify(options: Options, terminal: Terminal) -> int:
    """Run and report; returns the exit status: 0 when everything holds, 1 when something does not."""
    if options.database_url is not None:
        stored.refuse_other_work(options.database_url)
    work = WorkDir("verify-logs")
    terminal.heading("Starting")
    with running(options, work.path, terminal) as system:
        run = Run(options, system, work.path, terminal)
        try:
            report = run.to_its_end()
        finally:
            thaw(system)
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
    """One run over a system that is up."""

    def __init__(self, options: Options, system: System, logs: Path, terminal: Terminal) -> None:
        self._options = options
        self._system = system
        self._logs = logs
        self._terminal = terminal
        run = secrets.token_hex(4)
        self._catalogue = Catalogue(run)
        self._ledger = Ledger()
        self._database = db.connect(system.database_url, pool_size=3, application_name="te-verify")
        self._witness = Witness(self._database, run)
        plan = schedule(options, system.stack.names, LEASE_SECONDS)
        self._injector = Injector(system.stack, plan)
        self._workload = Workload(
            options,
            self._client,
            self._catalogue,
            self._ledger,
            self._database,
            receiver=system.targets.receiver,
        )
        self._repertoire = Repertoire(
            options,
            system,
            self._catalogue,
            self._injector,
            self._workload,
        )
        self._injector.use(self._repertoire.acts)
        self._started_at = 0.0
        self._shown_at = self._quiet_by = 0.0

    def to_its_end(self) -> VerifyReport:
        """Create the load, wait for quiet and return the report."""
        began = time.monotonic()
        with self._terminal.step("endpoints to recording receivers, and a witness in the database"):
            self._witness.install()
            self._system.targets.kafka.create_topic(self._catalogue.topic, partitions=3)
            self._catalogue.register(self._system.stack.api, self._system.targets)
        self._terminal.heading(f"Load: {self._options.rate:g} jobs a second for {self._options.duration:g} s")
        self._work()
        with self._terminal.step("reading both sides"):
            evidence = self._evidence()
        return VerifyReport(
            options=self._options,
            results=run_checks(evidence),
            evidence=evidence,
            faults=self._injector.done,
            restarts=self._injector.restarts,
            seconds=time.monotonic() - began,
            notes=self._notes(evidence),
        )

    def close(self) -> None:
        """Stop, and remove what the run put into the database: endpoints, key and witness, not the history."""
        self._injector.end()
        self._workload.stop()
        with suppress(ApiError, ChildError, requests.RequestException):
            self._catalogue.remove(self._system.stack.api)
            self._system.stack.revoke_key(self._system.stack.api.key)
        with suppress(UnavailableError):
            self._witness.remove()
        self._database.close()

    def _work(self) -> None:
        workload = self._workload
        self._started_at = workload.start()
        self._until(self._has_created_all, "creating jobs")
        self._injector.end()
        workload.wind_down(self._until)
        self._quiet_by = time.monotonic() + _QUIET_PATIENCE_SECONDS
        self._until(self._is_quiet, "waiting for quiet")

    def _until(self, is_over: Stopping, what: str) -> None:
        """Keep the faults and the supervisor going until it is over; an outage of the database is no answer."""
        while True:
            self._injector.step(time.monotonic() - self._started_at)
            with suppress(UnavailableError):
                if is_over():
                    return
                if time.monotonic() - self._shown_at >= _SHOWN_EVERY_SECONDS:
                    self._shown_at = time.monotonic()
                    self._show(what)
            time.sleep(_TURN_SECONDS)

    def _show(self, what: str) -> None:
        counts = stored.progress(self._database, self._catalogue.names)
        done = sum(number for status, number in counts.items() if status in FINAL)
        elapsed = time.monotonic() - self._started_at
        text = f"  {elapsed:4.0f} s  {what}: {len(self._ledger)} accepted, {done} of {sum(counts.values())} finished"
        faults = f", {len(self._injector.done)} faults, latest {self._injector.latest}" if self._injector.done else ""
        self._terminal.status(text + faults)

    def _is_quiet(self) -> bool:
        """Return whether all executions have ended, or it takes too long."""
        is_over = all(status in FINAL for status in stored.progress(self._database, self._catalogue.names))
        return is_over or time.monotonic() > self._quiet_by

    def _has_created_all(self) -> bool:
        return not self._workload.is_creating() and self._repertoire.has_created_all

    def _evidence(self) -> Evidence:
        targets, names = self._system.targets, self._catalogue.names
        rows = stored.read(self._database, names)
        came = [
            *self._system.sightings.arrivals,
            *arrival_record.kafka(targets.kafka.bootstrap, self._catalogue.topic),
            *arrival_record.redis_stream(targets.valkey.url, self._catalogue.stream),
        ]
        return Evidence(
            accepted=self._ledger.accepted,
            contradictions=tuple(self._ledger.contradictions),
            jobs=rows.jobs,
            executions=rows.executions,
            attempts=rows.attempts,
            transitions=self._witness.changes(names),
            arrivals=tuple(came),
            # Our own PostgreSQL reads the very clock that the receivers read.
            clock_slack=stored.clock_slack(self._database, is_ours=self._system.postgres is not None),
            conduct=self._ledger.conduct(self._injector.unexpected),
            locks=self._repertoire.locks,
            leaks=tuple(self._leaks()),
            flow=self._flow(),
        )

    def _flow(self) -> FlowEvidence:
        began = datetime.now(UTC) - timedelta(seconds=time.monotonic() - self._started_at)
        faults = [fault for fault in self._injector.done if disturbs(fault)]
        at = [began + timedelta(seconds=fault.at) for fault in faults]
        return FlowEvidence(
            disturbed=tuple(
                Span(since, since + timedelta(seconds=fault.seconds) + _RECOVERY)
                for since, fault in zip(at, faults, strict=True)
            ),
            limits=self._catalogue.flow.limits,
            breaker_changes=stored.breaker_changes(self._database, began),
            breakers=stored.breakers(self._database, self._catalogue.names),
        )

    def _leaks(self) -> Iterator[str]:
        """Look for the secret in the rows and in what the processes wrote."""
        canary = self._catalogue.canary
        yield from stored.rows_with(self._database, canary)
        for log in sorted(self._logs.glob("*.log")):
            with log.open(errors="replace") as lines:
                if any(canary in line for line in lines):
                    yield f"the log {log.name}"

    def _notes(self, evidence: Evidence) -> list[str]:
        notes = [
            "late: arrival of the first message minus the scheduled time, over the whole run, outages included",
            f"a worker's lease is {LEASE_SECONDS:g} s here, so that a short run sees one run out",
        ]
        notes += self._repertoire.notes()
        if self._workload.pauses:
            notes.append(f"times that a repeating job was paused and resumed: {self._workload.pauses:,}")
        if self._system.postgres is None:
            slack = evidence.clock_slack.total_seconds() * 1000
            notes.append(
                f"this machine's clock may be {slack:.1f} ms behind the database's; early means by more than that"
            )
        if evidence.transitions is None:
            notes.append("no witness on this engine: the order of states and stale writes were judged by rows only")
        return notes

    def _client(self) -> Api:
        return Api(self._system.stack.url, self._system.stack.api.key)
