"""Surroundings: queues without workers, no scheduler, secrets without their key, tables that are not cleaned up."""

from collections.abc import Iterator

from app.catalog import rotation
from app.catalog.crypto import VARIABLE
from app.features.control import process_list
from app.features.control.process_list import ProcessState
from app.features.control.queue_statistics import unserved
from app.features.doctor.finding import Finding, Patient
from app.kernel.db.engine_doubts import doubts
from app.kernel.formats import rfc3339
from app.kernel.processes.process_heartbeat import Kind
from app.kernel.sql import statement

LEAST_DEAD = 50_000
DEAD_SHARE = 0.2
_MOST_NAMED = 20

# PostgreSQL only.
DEAD = statement(
    "doctor.dead_rows",
    """
    SELECT relname AS name, n_dead_tup AS dead, n_live_tup AS live, last_autovacuum AS cleaned_at
      FROM pg_stat_user_tables WHERE schemaname = current_schema() ORDER BY n_dead_tup DESC
    """,
)
OLDEST = statement(
    "doctor.oldest_transaction",
    """
    SELECT pid, application_name, CAST(EXTRACT(EPOCH FROM (now() - xact_start)) AS BIGINT) AS seconds
      FROM pg_stat_activity
     WHERE datname = current_database() AND xact_start < now() - INTERVAL '10 minutes'
     ORDER BY xact_start LIMIT 1
    """,
)


def queues(patient: Patient) -> Iterator[Finding]:
    """Find queues in which something is due and that no live worker serves."""
    for each in unserved(patient.database):
        problem = f"no worker serves the queue {each.queue!r}: {each.due} executions are due"
        problem += f", the first for {each.oldest_due_seconds:.0f} s"
        fix = f"start `dramatiq actors`, or `dramatiq actors -Q {each.queue}`"
        yield Finding("queues", problem, fix)


def schedulers(patient: Patient) -> Iterator[Finding]:
    """Find that there was a scheduler and that none is alive, before anything is late for it."""
    known = process_list.read(patient.database, Kind.SCHEDULER)
    if known and all(each.state is not ProcessState.ALIVE for each in known):
        last = max(known, key=lambda each: each.last_beat_at)
        problem = f"no scheduler is alive; the last one, {last.process_id} on {last.host}, "
        problem += f"{'ended' if last.state is ProcessState.DEAD else 'fell silent'} at {rfc3339(last.last_beat_at)}"
        yield Finding("processes", problem, "start one (`python -m app.scheduler`), better two")


def secrets(patient: Patient) -> Iterator[Finding]:
    """Find secrets that this process cannot decrypt."""
    names = rotation.key_use(patient.database, patient.services.secret_box).unreadable
    if names:
        named = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        fix = f"add their key to {VARIABLE}, here and for web and workers, or store them anew (PUT /secrets/NAME)"
        yield Finding("secrets", f"{len(names)} secrets cannot be decrypted: {named}", fix)


def server(patient: Patient) -> Iterator[Finding]:
    """Find a server with known faults, or with another isolation level."""
    for doubt in doubts(patient.database):
        yield Finding("database", doubt, "see docs/operations.md, CockroachDB")


def bloat(patient: Patient) -> Iterator[Finding]:
    """Find tables of PostgreSQL with many dead rows, and a transaction that keeps them from being cleaned up."""
    database = patient.database
    if database.is_cockroach:
        return
    for row in database.fetch(DEAD):
        if row.dead >= LEAST_DEAD and row.dead >= DEAD_SHARE * row.live:
            cleaned = (
                f", last cleaned up at {row.cleaned_at:%Y-%m-%dT%H:%M}Z" if row.cleaned_at else ", never cleaned up"
            )
            problem = f"the table {row.name} has {row.dead:,} dead rows beside {row.live:,} live ones{cleaned}"
            fix = f"VACUUM (ANALYZE) {row.name}; and see that autovacuum runs, and that no transaction stays open"
            yield Finding("bloat", problem, fix)
    for row in database.fetch(OLDEST):
        problem = (
            f"a transaction of {row.application_name or 'a client'} has been open for {row.seconds} s (pid {row.pid})"
        )
        yield Finding("bloat", problem, "end it: dead rows cannot be cleaned up while it lasts")
