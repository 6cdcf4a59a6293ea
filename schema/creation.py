"""Creation of the schema in an empty database: the tables of this release, their first rows, and physical tuning.

Runs inside the first revision. Each statement may be repeated after an interruption.
"""

from operator import attrgetter

from alembic import op
from sqlalchemy import DateTime, Index
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from schema import online
from schema.tables import metadata

# Counters that a claim reads, and the status of the only region.
FIRST_ROWS = (
    (
        "INSERT INTO catalog_revision (id) VALUES ('catalog'), ('flow'), ('routes'), ('callbacks'), ('notifications') "
        "ON CONFLICT (id) DO NOTHING"
    ),
    "INSERT INTO region_status (region) VALUES ('default') ON CONFLICT (region) DO NOTHING",
)
STORAGE = {
    # Room on each page keeps the new version of a row beside the old one. Where no index changes, PostgreSQL then
    # updates in place (HOT). Rows of queue tables die young: vacuum at 2 % of dead rows instead of 20 %.
    # Jobs that were created together end together, before old versions can be removed from their page: a step of a
    # workflow keeps them for its duration. So each row of a page has room for a second version.
    "jobs": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05",
    "executions": "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05",
    "gates": "fillfactor = 50",
    "gate_windows": "fillfactor = 50",
    "breakers": "fillfactor = 50",
    "limiter_values": "fillfactor = 50",
    "workflows": "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05",
    "workflow_nodes": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05",
    # Retention leaves dead entries at the front of their indexes, which the planner reads for each list.
    "attempts": "autovacuum_vacuum_scale_factor = 0.02",
    "execution_logs": "autovacuum_vacuum_scale_factor = 0.02",
    # Nearly empty at all times: a share of its rows says nothing.
    "execution_ends": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000",
}
"""Storage parameters of tables on PostgreSQL."""
# Each change of state leaves an old version of the row and of its index entries. A scan from the oldest end of an
# index reads all old versions: CockroachDB keeps them for ten minutes instead of four hours.
SHORT_HISTORIES = (
    *("jobs", "executions", "execution_ends", "notification_parts", "idempotency_keys", "breaker_counts"),
    *("workflows", "workflow_nodes", "delivery_rollups", "failure_rollups", "queue_samples"),
)


def create() -> None:
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table, if_not_exists=True))
        for index in sorted(table.indexes, key=attrgetter("name")):
            op.execute(index_statement(index, spreads=online.is_cockroach()))
    for statement in FIRST_ROWS:
        op.execute(statement)
    if online.is_cockroach():
        for name in SHORT_HISTORIES:
            online.execute_if_permitted(f"ALTER TABLE {name} CONFIGURE ZONE USING gc.ttlseconds = 600")
    else:
        for name, parameters in STORAGE.items():
            op.execute(f"ALTER TABLE {name} SET ({parameters})")


def index_statement(index: Index, *, spreads: bool) -> str:
    """Return the statement that creates an index, on CockroachDB with `spreads`.

    An index that leads with a time, or with a status and a time, would take all inserts in one range there: a hash in
    front spreads them. The index of due jobs has few entries and is read in its order.
    """
    statement = str(CreateIndex(index, if_not_exists=True).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    leading = next(column for column in index.columns if column.name != "status")
    is_spread = spreads and isinstance(leading.type, DateTime) and index.name != "idx_jobs_cron_due"
    return statement.replace(")", ") USING HASH", 1) if is_spread else statement
