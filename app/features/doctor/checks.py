"""Checks of the database, and of rows of the kernel."""

from collections.abc import Sequence

from app.features.doctor import schema_drift, stalled_bulk_jobs, stalled_rows, surroundings
from app.scheduler.finding import Check

# The schema comes first: without it the other checks would fail.
CHECKS: Sequence[Check] = (
    *(surroundings.clock, schema_drift.revision, schema_drift.shape),
    *(surroundings.server, surroundings.secrets, surroundings.bloat),
    *(stalled_rows.overdue, stalled_rows.lost, stalled_rows.stuck, stalled_rows.cut_off, stalled_bulk_jobs.standing),
)
