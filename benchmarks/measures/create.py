"""Rate at which jobs are created through the API, beside Flask with and without one insert under the same load."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from app.dev.process.ports import free_port
from benchmarks.contenders.ours import Ours
from benchmarks.load import PLACE, Plan
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run
from benchmarks.system import System

CLIENTS = 32
_BATCH = 1000
# The server and settings of ours: processes, threads, kept connections, and where the heartbeat file lies.
_SERVER = (
    *("gunicorn", "--worker-class", "app.web.server.gunicorn_worker.Worker", "--workers", "2", "--threads", "8"),
    *("--keep-alive", "15", "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "benchmarks.bare:app"),
)

RATE = Figure(f"POST /jobs, {CLIENTS} clients", "1/s", is_yardstick=True)
RATIO = Figure(f"POST /jobs, {CLIENTS} clients, by Flask + insert of the same round", "", 2)
P50 = Figure(f"POST /jobs, {CLIENTS} clients, p50", "ms", 1)
P99 = Figure(f"POST /jobs, {CLIENTS} clients, p99", "ms", 1)
ALONE = Figure("POST /jobs, one client, p50", "ms", 2)
BATCH = {clients: Figure(f"jobs by POST /jobs/batch of 1,000, {clients} client(s)", "1/s") for clients in (1, 4)}

NOTHING, INSERT = "bare Flask", "Flask + insert"


def measure(run: Run, system: System, seconds: float, rounds: int) -> Section:
    """Load everyone in turn with the same requests."""
    section = run.section("Creation")
    ours = {one.name: plan_for(one, seconds) for one in system.all_ours}
    with _bare(system, ours[system.ours.name]) as bare:
        for _ in range(rounds):
            run.calibrate()
            rates = {who: _single(section, system, who, plan) for who, plan in (bare | ours).items()}
            for who, rate in rates.items():
                section.add(RATIO, who, rate / rates[INSERT])
            for who, plan in ours.items():
                _batches(section, system, who, plan)
            run.calibrate()
            print("  creation: " + ", ".join(f"{who} {rate:,.0f}/s" for who, rate in rates.items()), flush=True)
    run.remark("Flask + insert: one statement that writes a job and an execution into our tables, nothing else")
    return section


def _single(section: Section, system: System, who: str, plan: Plan) -> float:
    many = load_with(system, plan)
    alone = load_with(system, replace(plan, clients=1, seconds=plan.seconds / 2))
    section.add(RATE, who, many["rate"])
    section.add(P50, who, percentile(many["seconds"], 0.5) * 1000)
    section.add(P99, who, percentile(many["seconds"], 0.99) * 1000)
    section.add(ALONE, who, percentile(alone["seconds"], 0.5) * 1000)
    return float(many["rate"])


def _batches(section: Section, system: System, who: str, plan: Plan) -> None:
    batch = replace(plan, path="/jobs/batch", template=f'{{"jobs":[{",".join([plan.template] * _BATCH)}]}}')
    for clients, figure in BATCH.items():
        section.add(figure, who, load_with(system, replace(batch, clients=clients))["rate"] * _BATCH)


def plan_for(ours: Ours, seconds: float) -> Plan:
    """Plan to create jobs that no worker has anything to do with."""
    job = ours.job("http://127.0.0.1:9/", trigger="DELAYED", run_at="2099-01-01T00:00:00Z", idempotency_key=PLACE)
    return Plan(f"127.0.0.1:{ours.stack.port}", "/jobs", ours.stack.api.key, json.dumps(job), CLIENTS, seconds)


@contextmanager
def _bare(system: System, plan: Plan) -> Iterator[dict[str, Plan]]:
    """Serve the two yardsticks, over the database of ours; lends their plans, made from ours."""
    address = f"127.0.0.1:{free_port()}"
    env = {"BENCH_DATABASE_URL": system.ours.stack.database_url}
    server = system.processes.launch("bare", (*_SERVER, "--bind", address), **env)
    system.processes.wait_for_line(server, "Booting worker", times=2)
    try:
        yield {
            NOTHING: replace(plan, address=address, path="/nothing"),
            INSERT: replace(plan, address=address, path="/insert"),
        }
    finally:
        server.stop(10)


def load_with(system: System, plan: Plan) -> Any:
    """Let a process of its own send the load, and return what it measured."""
    # A batch is longer than an argument of a command may be.
    file, answer = system.logs / "plan.json", system.logs / "answer.json"
    file.write_text(json.dumps(asdict(plan)))
    system.processes.run(("benchmarks.load", str(file), str(answer)))
    return json.loads(answer.read_text())
