"""Report of a run as text, JSON and JUnit XML."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

from app.dev.terminal import Terminal
from app.dev.verify.evidence import Evidence
from app.dev.verify.faults.fault_plan import Fault
from app.dev.verify.promise_checks import CheckResult
from app.dev.verify.verify_options import Options
from app.kernel.formats import numbered
from schema.states import EndpointType, Resolution

_MAX_SHOWN = 10
_PERCENTILES = (50, 90, 99, 99.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """Result of a run."""

    options: Options
    results: list[CheckResult]
    evidence: Evidence
    faults: list[Fault]
    restarts: int
    seconds: float
    notes: list[str]

    @property
    def holds(self) -> bool:
        return all(result.holds for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return all statistics as a JSON object."""
        evidence = self.evidence
        return {
            "holds": self.holds,
            "seed": self.options.seed,
            "seconds": round(self.seconds, 1),
            "jobs": dict(Counter(job.trigger.value for job in evidence.accepted)),
            "executions": dict(Counter(execution.status.value for execution in evidence.executions)),
            "attempts": len(evidence.attempts),
            "arrivals": dict(Counter(arrival.transport.value for arrival in evidence.arrivals)),
            "changes_of_state": None if evidence.transitions is None else len(evidence.transitions),
            "changes_of_breakers": len(evidence.breaker_changes),
            "faults": dict(Counter(fault.act.value for fault in self.faults)),
            "processes_started_again": self.restarts,
            "requests_repeated": evidence.conduct.repeats,
            "slowest_answer_seconds": round(evidence.conduct.slowest_answer, 3),
            "repeated_deliveries": repeats_by_cause(evidence),
            "judged": judged(evidence),
            "lateness_ms": lateness(evidence),
            "notes": self.notes,
            "checks": {result.name: list(result.breaches) for result in self.results},
        }


def judged(evidence: Evidence) -> dict[str, int]:
    """Count the rows and events beside jobs and attempts that the checks judged."""
    endings = evidence.endings
    return {
        "callbacks": len(endings.called),
        "dead letters": len(endings.letters),
        "redriven letters": sum(letter.resolution is Resolution.REDRIVEN for letter in endings.letters),
        "messages": len(endings.messages),
        "events": len(evidence.events or ()),
        "jobs of committed transactions": sum(job.visible_at is not None for job in evidence.accepted),
        "jobs of rolled-back transactions": len(evidence.rolled_back),
        "pauses of a queue": sum(map(len, evidence.queue_pauses.values())),
    }


def repeats_by_cause(evidence: Evidence) -> dict[str, int]:
    """Count the repeated deliveries of executions, by the error of the repeated attempt."""
    errors = {(attempt.execution_id, attempt.number): attempt.error_type for attempt in evidence.attempts}
    causes: Counter[str] = Counter()
    for execution_id, arrivals in evidence.arrivals_of().items():
        taken = [arrival for arrival in arrivals if arrival.taken]
        explained = [cause for arrival in taken if (cause := errors.get((execution_id, arrival.attempt or 0)))]
        causes.update(explained[: len(taken) - 1])
        causes["unexplained"] += max(0, len(taken) - 1 - len(explained))
    return {cause: number for cause, number in causes.most_common() if number}


def lateness(evidence: Evidence) -> dict[str, dict[str, float]]:
    """Return percentiles of the delay of each execution's first message, by transport, in milliseconds.

    Leaves out executions that wait by design: at a limited endpoint, or in a queue that is paused.
    """
    waiting = evidence.limits.keys() | evidence.queue_pauses.keys()
    due = {row.execution_id: row.scheduled_at for row in evidence.executions if row.endpoint not in waiting}
    late: dict[EndpointType, list[float]] = {}
    for execution_id, arrivals in evidence.arrivals_of().items():
        if execution_id in due:
            first = arrivals[0]
            late.setdefault(first.transport, []).append((first.at - due[execution_id]) / timedelta(milliseconds=1))
    return {
        transport.value: {f"p{percent:g}": _percentile(sorted(values), percent) for percent in _PERCENTILES}
        for transport, values in sorted(late.items())
    }


def _percentile(ordered: list[float], percent: float) -> float:
    return round(max(0.0, ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]), 1)


def show(report: VerifyReport, terminal: Terminal) -> None:
    figures = report.as_json()
    terminal.heading("Summary")
    terminal.line(f"  seed {figures['seed']}, {figures['seconds']} s; the same seed repeats the same faults and jobs")
    rows = [
        ("jobs accepted", _counts(figures["jobs"])),
        ("executions", _counts(figures["executions"])),
        ("attempts, arrivals", f"{figures['attempts']}, {_counts(figures['arrivals'])}"),
        ("changes of breakers", str(figures["changes_of_breakers"])),
        ("faults", _counts(figures["faults"])),
        ("processes started again", str(figures["processes_started_again"])),
        ("requests repeated", f"{figures['requests_repeated']}; slowest answer {figures['slowest_answer_seconds']} s"),
        ("repeated deliveries", _counts(figures["repeated_deliveries"])),
        ("also judged", _counts(figures["judged"])),
    ]
    rows += [
        (f"late by (ms), {transport}", ", ".join(f"{name} {value}" for name, value in values.items()))
        for transport, values in figures["lateness_ms"].items()
    ]
    terminal.table(["SUBJECT", ""], rows)
    for note in report.notes:
        terminal.line((f"  {note}", "dim"))
    terminal.heading("Checks")
    for result in report.results:
        found = "" if result.holds else f": {numbered(len(result.breaches), 'breach')}"
        terminal.line("  ", ("✓", "green") if result.holds else ("✗", "red"), f" {result.name}{found}")
        for breach in result.breaches[:_MAX_SHOWN]:
            terminal.line(f"      {breach}")
        if len(result.breaches) > _MAX_SHOWN:
            terminal.line(f"      and {len(result.breaches) - _MAX_SHOWN} more")
    terminal.line("\n", ("All checks hold.", "green") if report.holds else ("Not all checks hold.", "red"))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


def write_json(report: VerifyReport, path: Path) -> None:
    path.write_text(json.dumps(report.as_json(), indent=2) + "\n")


def write_junit(report: VerifyReport, path: Path) -> None:
    """Write each check as one test case."""
    failed = sum(not result.holds for result in report.results)
    suite = Element("testsuite", name="verify", tests=str(len(report.results)), failures=str(failed))
    suite.set("time", f"{report.seconds:.1f}")
    for result in report.results:
        case = SubElement(suite, "testcase", classname="verify", name=result.name)
        if not result.holds:
            failure = SubElement(case, "failure", message=numbered(len(result.breaches), "breach"))
            failure.text = "\n".join(result.breaches)
    ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
