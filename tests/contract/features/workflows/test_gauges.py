"""Metrics of workflows: counted with each step, and gauges read from the database."""

from sqlalchemy import text

from app.features.workflows import gauges, metrics
from app.features.workflows.handlers import WORKFLOWS
from app.kernel.db import Database
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Values
from app.queue.ending.outbox_processor import OutboxProcessor
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job


def counted(series: Series, values: Values = PROCESS) -> float:
    """Return a counter, or the number of values of a histogram."""
    cell = values.cells(series)[()]
    return sum(cell[1:]) if len(cell) > 1 else cell[0]


def test_steps_count_jobs_and_ends(database: Database) -> None:
    before = {series: counted(series) for series in WORKFLOWS.counters}
    flows.register(database)
    well = flows.create(database, [job("a", for_each=[1, 2]), job("b", "a"), gate("c", "b")])
    flows.run(database, well)
    failed = flows.create(database, [job("a")])
    flows.run(database, failed, failing=["a"])
    flows.advance(database, well)
    gained = {series: counted(series) - before[series] for series in WORKFLOWS.counters}
    steps = gained.pop(metrics.STEP_SECONDS)
    assert steps >= 5
    assert gained == {
        metrics.SUCCEEDED: 1,
        metrics.FAILED: 1,
        metrics.CANCELLED: 0,
        metrics.DURATION: 2,
        metrics.STARTED: 4,
    }


def test_worker_reports_zeros_before_its_first_step(database: Database) -> None:
    values = Values()
    OutboxProcessor(database, handlers=[WORKFLOWS], values=values)
    assert {series for series in WORKFLOWS.counters if series.name in values.snapshot().cells} == {*WORKFLOWS.counters}


def test_gauges_show_open_workflows_ready_nodes_and_the_lag(database: Database) -> None:
    flows.register(database)
    values = Values()
    gauges.set_gauges(database, values)
    assert values.snapshot().cells["workflow_step_lag_seconds"] == {(): [0.0]}
    flows.create(database, [job("a"), job("b")])
    started = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, started)
    flows.settle(database, flows.end(database, flows.claims(database)))
    database.fetch(
        text("UPDATE workflow_nodes SET ended_at = ended_at - INTERVAL '1 minute' WHERE ended_at IS NOT NULL")
    )
    paused = flows.create(database, [job("a")])
    database.fetch(text("UPDATE workflows SET status = 'PAUSED' WHERE workflow_id = :id"), {"id": paused})
    gauges.set_gauges(database, values)
    cells = values.snapshot().cells
    found = {labels[0]: value for labels, (value,) in cells["workflows_open"].items() if value}
    assert found == {"running": 2, "paused": 1}
    assert {len(cells["workflows_open"])} == {len(gauges.UNFINISHED)}
    assert cells["workflow_nodes_ready"] == {(): [3.0]}
    assert 60 <= cells["workflow_step_lag_seconds"][()][0] < 200
