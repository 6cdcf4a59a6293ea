"""Options of the verifier, its schedule of faults, and its report files."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from app.dev.verify.faults.fault_plan import CALM_SHARE, Act, schedule
from app.dev.verify.promise_checks import CheckResult
from app.dev.verify.report import VerifyReport, write_json, write_junit
from app.dev.verify.verify_options import FaultKind, Options
from tests.unit.verify.good_run import GOOD

PROCESSES = ["web", "worker-1", "worker-2", "scheduler-1"]
ALL = Options(duration=35, rate=10, seed=1, faults=frozenset(FaultKind))


def test_seed_decides_the_schedule() -> None:
    plan = schedule(ALL, PROCESSES, lease=4)
    assert plan == schedule(ALL, PROCESSES, lease=4)
    other = Options(duration=35, rate=10, seed=2, faults=ALL.faults)
    assert plan != schedule(other, PROCESSES, lease=4)


def test_short_run_has_every_kind_of_fault_and_a_calm_end() -> None:
    for seed in range(50):
        plan = schedule(Options(duration=35, rate=10, seed=seed, faults=ALL.faults), PROCESSES, lease=4)
        acts = {fault.act for fault in plan}
        assert acts & {Act.CUT, Act.STALL, Act.DROP}
        assert acts & {Act.RESTART_IMMEDIATE, Act.CRASH}
        assert acts > {Act.READ_ONLY, Act.LOCK_ROW, Act.HANG, Act.RESTART_LOADED, Act.ROTATE}
        assert all(fault.at < 35 * CALM_SHARE for fault in plan)
        assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


def test_only_chosen_faults_happen_and_a_freeze_outlasts_the_lease() -> None:
    plan = schedule(
        Options(duration=600, rate=1, seed=3, faults=frozenset({FaultKind.KILL_WORKER})), PROCESSES, lease=4
    )
    assert {fault.target for fault in plan} == {"worker-1", "worker-2"}
    assert {fault.act for fault in plan} == {Act.KILL, Act.KILL_CHILD, Act.TERMINATE, Act.FREEZE}
    assert all(fault.seconds > 4 for fault in plan if fault.act is Act.FREEZE)
    assert schedule(Options(duration=600, rate=1, seed=3), PROCESSES, lease=4) == []


def test_rows_of_each_kind_are_locked_for_longer_than_a_lease() -> None:
    plan = schedule(Options(duration=600, rate=1, seed=3, faults=frozenset({FaultKind.LOCK_ROWS})), PROCESSES, lease=4)
    assert {fault.act for fault in plan} == {act for act in Act if act.name.startswith("LOCK_")}
    assert {fault.target for fault in plan} <= set(PROCESSES)
    assert all(fault.seconds > 4 for fault in plan)


def test_read_only_fault_is_shorter_than_a_lease() -> None:
    plan = schedule(Options(duration=600, rate=1, seed=3, faults=frozenset({FaultKind.READ_ONLY})), PROCESSES, lease=4)
    assert plan
    assert all(0 < fault.seconds < 4 for fault in plan)


def test_long_run_has_every_act() -> None:
    plan = schedule(Options(duration=1800, rate=1, seed=5, faults=ALL.faults), PROCESSES, lease=4)
    assert {fault.act for fault in plan} == set(Act)


def test_report_files_name_each_check_and_its_breaches(tmp_path: Path) -> None:
    results = [CheckResult("holds", ()), CheckResult("does <not>", ("this & that",))]
    report = VerifyReport(options=ALL, results=results, evidence=GOOD, faults=[], restarts=0, seconds=1.0, notes=[])
    write_json(report, tmp_path / "report.json")
    write_junit(report, tmp_path / "report.xml")
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["holds"] is False
    assert found["checks"] == {"holds": [], "does <not>": ["this & that"]}
    suite = ET.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [failure.text for failure in suite.iter("failure")] == ["this & that"]
