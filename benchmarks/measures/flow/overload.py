"""Overload of the API: the time until it accepts or refuses requests, and its health during the overload."""

import json
from dataclasses import asdict
from typing import Any

from benchmarks import backlog
from benchmarks.flood import NO_ANSWER, NO_RETRY_AFTER, Flood
from benchmarks.measures import create
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run
from benchmarks.system import System

_TIMES = 3

CAPACITY = Figure(f"capacity: POST /jobs, {create.CLIENTS} clients", "1/s")
ACCEPTED = Figure("accepted", "1/s")
ACCEPTED_P99 = Figure("accepted after, p99", "ms", 1)
REFUSED = Figure("refused with 503", "1/s")
REFUSED_AFTER = [Figure(f"refused after, p{share}", "ms", 1) for share in (50, 99)]
OTHERS = Figure("other answers, or no answer", "")
WITHOUT = Figure("refused without Retry-After", "")
BEGUN_LATE = Figure("requests sent late by, p99", "ms", 1)
HEALTH = Figure("health answered after, at most", "ms", 1)
UNHEALTHY = Figure("health checks not answered with 200", "")


def measure(run: Run, system: System, seconds: float, rounds: int) -> Section:
    """Send three times the rate that 32 waiting clients reach."""
    section = run.section(f"Overload: {_TIMES} x the capacity for {seconds:g} s")
    for _ in range(rounds):
        for ours in system.all_ours:
            run.calibrate()
            plan = create.plan_for(ours, min(seconds, 4.0))
            capacity = float(create.load_with(system, plan)["rate"])
            flood = Flood(plan.address, plan.path, plan.key, plan.template, _TIMES * capacity, seconds)
            _add_results(section, ours.name, capacity, seconds, flood_with(system, flood))
            backlog.clear(ours.stack.database_url)
            print(f"  overload: {ours.name} taken", flush=True)
    run.calibrate()
    return section


def flood_with(system: System, flood: Flood) -> Any:
    file, answer = system.logs / "plan.json", system.logs / "answer.json"
    file.write_text(json.dumps(asdict(flood)))
    system.processes.run(("benchmarks.flood", str(file), str(answer)))
    return json.loads(answer.read_text())


def _add_results(section: Section, column: str, capacity: float, seconds: float, found: Any) -> None:
    requests: dict[str, list[float]] = found["requests"]
    accepted, refused = requests.get("201", []), requests.get("503", [])
    without = len(requests.get(NO_RETRY_AFTER, []))
    section.add(CAPACITY, column, capacity)
    section.add(ACCEPTED, column, len(accepted) / seconds)
    section.add(ACCEPTED_P99, column, percentile(accepted, 0.99) * 1000 if accepted else float("inf"))
    section.add(REFUSED, column, len(refused) / seconds)
    for figure, share in zip(REFUSED_AFTER, (0.5, 0.99), strict=True):
        section.add(figure, column, percentile(refused, share) * 1000 if refused else 0.0)
    section.add(OTHERS, column, sum(map(len, requests.values())) - len(accepted) - len(refused) - without)
    section.add(WITHOUT, column, without)
    section.add(BEGUN_LATE, column, percentile(found["late"]["requests"], 0.99) * 1000)
    health: dict[str, list[float]] = found["health"]
    answered = [second for status, seconds_ in health.items() if status != NO_ANSWER for second in seconds_]
    section.add(HEALTH, column, max(answered, default=float("inf")) * 1000)
    section.add(UNHEALTHY, column, sum(len(seconds_) for status, seconds_ in health.items() if status != "200"))
