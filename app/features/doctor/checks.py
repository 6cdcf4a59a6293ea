"""Checks of the database, of this machine and of secrets; other modules check the schema and rows of the kernel."""

from collections.abc import Iterator, Sequence

from app.catalog import rotation
from app.catalog.crypto import VARIABLE, SecretBox
from app.features.doctor import schema_drift, stalled_work
from app.kernel.db.startup import doubts
from app.kernel.formats import numbered
from app.kernel.processes.clock_offset import RUN_NTP, TOLERATED, distance, read_clocks
from app.kernel.sql import statement
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Check, Finding, listed

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


def clock(context: ChoreContext) -> Iterator[Finding]:
    read = read_clocks(context.database)
    if abs(read.ahead) > TOLERATED + read.bound:
        problem = f"this machine's clock is {distance(read.ahead)} the database's"
        yield Finding("clocks", problem, RUN_NTP.format(where="here"))


def secrets(context: ChoreContext) -> Iterator[Finding]:
    """Find secrets that this process cannot decrypt."""
    key = context.settings.secret_encryption_key
    names = rotation.key_use(context.database, SecretBox.from_setting(key) if key else None).unreadable
    if names and not key:
        fix = f"set {VARIABLE} here to the value that web and workers have"
        yield Finding("secrets", f"{VARIABLE} is not set here, so secrets cannot be checked", fix)
    elif names:
        fix = f"add their key to {VARIABLE}, here and for web and workers, or store them again (PUT /secrets/NAME)"
        yield Finding("secrets", f"{numbered(len(names), 'secret')} cannot be decrypted: {listed(names, 20)}", fix)


def server(context: ChoreContext) -> Iterator[Finding]:
    """Find a server with known faults, or with an unsupported isolation level."""
    for doubt in doubts(context.database):
        yield Finding("database", doubt, "see docs/how-to/operations.md, CockroachDB")


def bloat(context: ChoreContext, *, min_dead: int = 50_000, dead_share: float = 0.2) -> Iterator[Finding]:
    """Find PostgreSQL tables with many dead rows, and a long transaction that blocks their vacuum."""
    database = context.database
    if database.is_cockroach:
        return
    for row in database.fetch(DEAD):
        if row.dead >= min_dead and row.dead >= dead_share * row.live:
            cleaned = f"last cleaned up at {row.cleaned_at:%Y-%m-%dT%H:%M}Z" if row.cleaned_at else "never cleaned up"
            problem = f"the table {row.name} has {row.dead:,} dead rows beside {row.live:,} live ones, {cleaned}"
            fix = f"VACUUM (ANALYZE) {row.name}; and see that autovacuum runs, and that no transaction stays open"
            yield Finding("bloat", problem, fix)
    for row in database.fetch(OLDEST):
        client = row.application_name or "a client"
        problem = f"a transaction of {client} has been open for {row.seconds} s (pid {row.pid})"
        yield Finding("bloat", problem, "end it: dead rows cannot be cleaned up while it lasts")


# The schema comes first: without it the other checks would fail.
CHECKS: Sequence[Check] = (
    *(clock, schema_drift.revision, schema_drift.shape, server, secrets, bloat),
    *(stalled_work.overdue, stalled_work.lost, stalled_work.stuck, stalled_work.cut_off, stalled_work.bulk_jobs),
)
