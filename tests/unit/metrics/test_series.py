"""Declared metric series: Prometheus can read them, each is documented, and each is used."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from app.kernel.metrics.rendering import rendered
from app.kernel.metrics.series import PREFIX, Kind, Series
from tests.series import MODULES, SERIES

ROOT = Path(__file__).parents[3]
ODD = 'a "quoted" \\ name\n'


def values_of(declared: Series) -> dict[tuple[str, ...], list[float]]:
    return {tuple(ODD for _ in declared.labels): [float(n) for n in range(1, declared.cell_size + 1)]}


def test_prometheus_reads_the_declared_series() -> None:
    text = rendered({declared: values_of(declared) for declared in SERIES.values()}).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) == len(SERIES)
    for declared in SERIES.values():
        family = families[PREFIX + declared.name.removesuffix("_total")]
        assert family.type == declared.kind.name.lower()
        assert family.documentation == declared.help
        for sample in family.samples:
            assert {name: value for name, value in sample.labels.items() if name != "le"} == dict.fromkeys(
                declared.labels, ODD
            )
        if declared.kind is Kind.HISTOGRAM:
            counts = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            assert counts == sorted(counts)
            assert counts[-1] == sum(range(2, declared.cell_size + 1))


def test_names_follow_the_conventions_of_prometheus() -> None:
    for declared in SERIES.values():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", declared.name)
        assert declared.name.endswith("_total") is (declared.kind is Kind.COUNTER), declared.name
        assert declared.help.endswith("."), declared.name
        assert list(declared.buckets) == sorted(declared.buckets), declared.name


def test_each_series_is_used_somewhere() -> None:
    names = {name for module in MODULES for name, value in vars(module).items() if isinstance(value, Series)}
    files = [path for package in ("actors", "app", "brokers") for path in (ROOT / package).rglob("*.py")]
    used = {name for path in files for name in re.findall(r"\b[A-Z][A-Z_]*\b(?! = )", path.read_text())}
    assert names - used == set()


def test_document_lists_each_series_with_its_help() -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text().partition("## All series")[2].partition("\n## ")[0]
    listed = [tuple(row) for row in re.findall(r"^\| `(\w+(?:\{[\w,]+\})?)` \| (\w+) \| (.*) \|$", text, re.MULTILINE)]
    names = {name: f"{name}{{{','.join(each.labels)}}}" if each.labels else name for name, each in SERIES.items()}
    # Features add their series in the order in which a process imports them.
    assert sorted(listed) == sorted((names[name], each.kind.name.lower(), each.help) for name, each in SERIES.items())
