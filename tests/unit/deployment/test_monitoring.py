"""deploy/prometheus and deploy/grafana: queries use declared series, and each alert is explained and tested."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.features.control.statistics import Hold
from app.features.control.store import WorkerState
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.metrics.series import BUILD, PREFIX, Kind, Merge, Series
from app.scheduler.chore import ChoreContext
from app.scheduler.chore_plan import plan
from schema.states import BreakerState
from tests.series import SERIES

ROOT = Path(__file__).parents[3]
CASES = Path(__file__).parent / "rules_test.yml"
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "task-executor.json").read_text())
OF_TARGETS = {"job", "instance"}
SELECTED = re.compile(rf"\b{PREFIX}(\w+)(?:\{{(.*?)\}})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\((.*?)\)")
CONTEXT = ChoreContext(
    db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-none"),
    Settings(),
    hint=lambda _queue: None,
    stopping=lambda: False,
)
VALUES = {
    "chore": {chore.name for chore in plan(CONTEXT)},
    "hold": {hold.value for hold in Hold},
    "status_class": {"2xx", "3xx", "4xx", "5xx"},
}
STATES = {"breakers": {state.value for state in BreakerState}, "workers": {state.lower() for state in WorkerState}}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the expression and the text of each rule and of each query of a panel."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"], str(rule.get("annotations", ""))
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def declared(name: str) -> tuple[Series, set[str]]:
    """Return the series that a name in an expression selects, and its labels."""
    if name in SERIES:
        assert SERIES[name].kind is not Kind.HISTOGRAM, f"{name} is a histogram: use _bucket, _sum or _count"
        return SERIES[name], {*SERIES[name].labels}
    of, _, suffix = name.rpartition("_")
    assert of in SERIES, f"{name} is not declared"
    assert SERIES[of].kind is Kind.HISTOGRAM, f"{of} is no histogram"
    assert suffix in {"bucket", "sum", "count"}, name
    return SERIES[of], {*SERIES[of].labels, *({"le"} if suffix == "bucket" else ())}


def check_matcher(series: Series, label: str, operator: str, value: str) -> None:
    """Fail if a matcher cannot match any value of its label."""
    if label == "le":
        bounds = [*(f"{bound:g}" for bound in series.buckets), "+Inf"]
        assert any(re.fullmatch(value, bound) for bound in bounds), f"{series.name} has no bound {value}"
    known = STATES.get(series.name, set()) if label == "state" else VALUES.get(label)
    if known is not None:
        for pattern in value.split("|"):
            assert any(re.fullmatch(pattern, each) for each in known), f"{label}{operator}{pattern} matches nothing"


def test_every_expression_uses_declared_series_and_labels() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used: set[str] = set()
    for title, expression, words in queries():
        labels = set(OF_TARGETS)
        found = SELECTED.findall(expression)
        for name, selector in found:
            series, series_labels = declared(name)
            matchers = MATCHER.findall(selector)
            assert MATCHER.sub("", selector).strip(", ") == "", f"{title}: {selector}"
            assert {label for label, *_ in matchers} <= series_labels | OF_TARGETS, f"{title}: {name}{{{selector}}}"
            for label, operator, value in matchers:
                check_matcher(series, label, operator, value)
            labels |= series_labels
        ratios = set(re.findall(r"\btask_executor:[\w:]+", expression))
        assert ratios <= recorded, title
        assert found or ratios, title
        used |= ratios
        grouped = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")} - {""}
        assert grouped <= labels, f"{title}: {grouped - labels}"
        in_text = set(re.findall(r"\$labels\.(\w+)", words)) | set(re.findall(r"\{\{(\w+)\}\}", words))
        assert in_text <= grouped, f"{title}: {in_text - grouped}"
    assert {record for record in recorded - used if not record.endswith(("5m", "1h"))} == set()


def test_counters_are_queried_by_their_increase() -> None:
    gains = re.compile(r"(?:rate|increase|max_over_time)\($|(?:unless|absent\() ?$")
    for title, expression, _ in queries():
        for match in SELECTED.finditer(expression):
            if declared(match[1])[0].kind is not Kind.GAUGE:
                assert gains.search(expression[: match.start()]), f"{title}: {match[0]}"


def test_gauges_of_the_whole_service_are_not_summed_over_schedulers() -> None:
    largest = re.compile(r"(?:max(?: by \(.*?\))? ?|absent)\($")
    for title, expression, _ in queries():
        for match in SELECTED.finditer(expression):
            series = declared(match[1])[0]
            if series.kind is Kind.GAUGE and series.merge is Merge.NEWEST and series is not BUILD:
                assert largest.search(expression[: match.start()]), f"{title}: {match[0]}"


def test_each_alert_has_a_severity_an_explanation_and_tests() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    explained = re.findall(r"^\| `(TaskExecutor\w+)`", text, re.MULTILINE)
    assert sorted(explained) == sorted(alerts)
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in {"page", "ticket"}, name
        assert rule["annotations"]["summary"], name
    tried = [each for case in yaml.safe_load(CASES.read_text())["tests"] for each in case["alert_rule_test"]]
    assert {each["alertname"] for each in tried if each["exp_alerts"]} == set(alerts)
    assert {each["alertname"] for each in tried if not each["exp_alerts"]} == set(alerts)


def test_each_series_is_on_a_panel() -> None:
    shown = {declared(name)[0].name for panel in panels() for name, _ in SELECTED.findall(json.dumps(panel["targets"]))}
    assert set(SERIES) - shown == set()


def test_dashboard_can_be_imported_by_grafana() -> None:
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "task-executor"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    (source,) = (each["name"] for each in DASHBOARD["templating"]["list"] if each["type"] == "datasource")
    squares: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in covered) < 24, panel["title"]
        assert not covered & squares, f"{panel['title']} overlaps another panel"
        squares |= covered
    for panel in panels():
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{source}}}"}, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def promtool(*arguments: str | Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool (in Debian's package prometheus)")
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", CASES)


def test_promtool_can_parse_the_queries_of_panels(tmp_path: Path) -> None:
    expressions = [
        target["expr"].replace("$__rate_interval", "5m") for panel in panels() for target in panel["targets"]
    ]
    as_rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(expressions)]
    file = tmp_path / "panels.json"  # JSON is valid YAML
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": as_rules}]}))
    promtool("check", "rules", file)
