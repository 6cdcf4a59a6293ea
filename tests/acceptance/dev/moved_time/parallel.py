"""Test that each process of pytest-xdist runs at the same time, on a stack of its own."""

import os
from pathlib import Path


def test_days_pass_in_this_process_only(te, te_stack, te_clock, deliveries):
    job = te.send(deliveries.url("/parallel"), delay="1d")
    te_clock.advance("1d")
    (execution,) = te.executions.list(job_id=job["job_id"])
    assert len(deliveries) == 1, f"{execution['status']}, {execution['last_error']}"
    Path(f"database-{os.environ['PYTEST_XDIST_WORKER']}").write_text(te_stack.database_url)
