"""Rate of creating jobs through the API, beside Flask with and without an insert under the same load."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from app.dev.process.ports import free_port
from benchmarks import bare
from benchmarks.contenders.ours import Ours
from benchmarks.load import PLACE, Plan
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run
from benchmarks.system import System

CLIENTS = 32
_BATCH = 1000
# The server and settings of the product: processes, threads, kept connections, and the directory of the heartbeat file.
_SERVER = (
    *("gunicorn", "--worker-class", "app.web.server.gunicorn_worker.Worker", "--workers", "2", "--threads", "8"),
    *("--keep-alive", "15", "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "benchmarks.bare:app"),
)

RATE = Figure(f"POST /jobs, {CLIENTS} clients", "1/s", is_yardstick=True)
RATIO = Figure(f"POST /jobs, {CLIENTS} clients, relative to Flask + insert in the same round", "", 2)
RATIO_TO_BARE = Figure(f"POST /jobs, {CLIENTS} clients, relative to Flask + insert, bare tables", "", 2)
P50 = Figure(f"POST /jobs, {CLIENTS} clients, p50", "ms", 1)
P99 = Figure(f"POST /jobs, {CLIENTS} clients, p99", "ms", 1)
ALONE = Figure("POST /jobs, one client, p50", "ms", 2)
BATCH = {clients: Figure(f"jobs by POST /jobs/batch of 1,000, {clients} client(s)", "1/s") for clients in (1, 4)}

NOTHING, INSERT, BARE_INSERT = "bare Flask", "Flask + insert", "Flask + insert, bare tables"


def measure(run: Run, system: System, seconds: float, rounds: int) -> Section:
    """Send the same load to each contender in turn."""
    section = run.section("Creation")
    ours = {contender.name: plan_for(contender, seconds) for contender in system.all_ours}
    with _bare(system, ours[system.ours.name]) as yardsticks:
        for _ in range(rounds):
            run.calibrate()
            rates = {column: _single(section, system, column, plan) for column, plan in (yardsticks | ours).items()}
            for column, rate in rates.items():
                section.add(RATIO, column, rate / rates[INSERT])
                section.add(RATIO_TO_BARE, column, rate / rates[BARE_INSERT])
            for column, plan in ours.items():
                _batches(section, system, column, plan)
            run.calibrate()
            print("  creation: " + ", ".join(f"{column} {rate:,.0f}/s" for column, rate in rates.items()), flush=True)
    run.remark(
        "Flask + insert: one statement that writes a job and an execution, nothing else, into our tables; bare tables: "
        "into two tables with the same columns, and without any index but their primary keys"
    )
    return section


def _single(section: Section, system: System, column: str, plan: Plan) -> float:
    many = load_with(system, plan)
    alone = load_with(system, replace(plan, clients=1, seconds=plan.seconds / 2))
    section.add(RATE, column, many["rate"])
    section.add(P50, column, percentile(many["seconds"], 0.5) * 1000)
    section.add(P99, column, percentile(many["seconds"], 0.99) * 1000)
    section.add(ALONE, column, percentile(alone["seconds"], 0.5) * 1000)
    return float(many["rate"])


def _batches(section: Section, system: System, column: str, plan: Plan) -> None:
    batch = replace(plan, path="/jobs/batch", template=f'{{"jobs":[{",".join([plan.template] * _BATCH)}]}}')
    for clients, figure in BATCH.items():
        section.add(figure, column, load_with(system, replace(batch, clients=clients))["rate"] * _BATCH)


def plan_for(ours: Ours, seconds: float) -> Plan:
    """Return a plan that creates jobs with nothing to do for workers."""
    job = ours.job("http://127.0.0.1:9/", trigger="DELAYED", run_at="2099-01-01T00:00:00Z", idempotency_key=PLACE)
    return Plan(f"127.0.0.1:{ours.stack.port}", "/jobs", ours.stack.api.key, json.dumps(job), CLIENTS, seconds)


@contextmanager
def _bare(system: System, plan: Plan) -> Iterator[dict[str, Plan]]:
    """Serve the versions of bare Flask over the product's database; yield their plans, made from the product's."""
    bare.create_tables(system.ours.stack.database_url)
    address = f"127.0.0.1:{free_port()}"
    env = {"BENCH_DATABASE_URL": system.ours.stack.database_url}
    server = system.processes.launch("bare", (*_SERVER, "--bind", address), **env)
    system.processes.wait_for_line(server, "Booting worker", times=2)
    try:
        yield {
            NOTHING: replace(plan, address=address, path="/nothing"),
            INSERT: replace(plan, address=address, path="/insert"),
            BARE_INSERT: replace(plan, address=address, path="/bare-insert"),
        }
    finally:
        server.stop(10)


def load_with(system: System, plan: Plan) -> Any:
    """Send the load from a separate process, and return its measurements."""
    # Passed as a file: a batch is longer than an argument of a command may be.
    file, answer = system.logs / "plan.json", system.logs / "answer.json"
    file.write_text(json.dumps(asdict(plan)))
    system.processes.run(("benchmarks.load", str(file), str(answer)))
    return json.loads(answer.read_text())
