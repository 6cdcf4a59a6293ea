"""Report of a benchmark: medians with ranges, and the verdict about the machine."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.report import markdown, plot
from benchmarks.report.results import Figure, Section, median, percentile
from benchmarks.report.run import Run

RATE = Figure("rate", "1/s", is_yardstick=True)
TIME = Figure("time", "ms", 2)


def section_of(**values: list[float]) -> Section:
    section = Section("Drain")
    for contender, of_contender in values.items():
        for value in of_contender:
            section.add(RATE, contender, value)
    return section


def test_table_has_a_row_for_each_metric_and_a_column_for_each_contender() -> None:
    section = section_of(ours=[3.0, 1.0, 2.0], peer=[1500.0])
    section.add(TIME, "ours", 0.5)
    assert markdown.show(section).splitlines()[2:] == [
        "|           |    ours |  peer |",
        "|-----------|--------:|------:|",
        "| rate, 1/s | 2 (1-3) | 1,500 |",
        "| time, ms  |    0.50 |       |",
    ]


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.99, 4.0)])
def test_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == value


def test_single_value_has_no_range() -> None:
    assert median([1234.5], 1) == "1,234.5"


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [([10.0, 90.0], [100.0, 110.0], "steady"), ([50.0, 50.0], [100.0, 140.0], "TOO UNSTEADY TO JUDGE")],
)
def test_peer_with_different_values_means_an_unsteady_machine(
    ours: list[float], theirs: list[float], word: str
) -> None:
    run = Run("drain")
    run.sections.append(section_of(ours=ours, peer=theirs))
    assert run.verdict().startswith(word)
    assert "rate of peer" in run.verdict()


@pytest.mark.parametrize("theirs", [[], [100.0]])
def test_machine_is_not_called_steady_after_one_round(theirs: list[float]) -> None:
    run = Run("drain")
    run.sections.append(section_of(ours=[10.0], peer=theirs))
    for _ in range(2):
        run.calibrate()
    assert run.verdict().startswith(("NOT JUDGED", "TOO UNSTEADY"))


def test_plot_has_a_bar_for_each_contender() -> None:
    drawn = ET.fromstring(plot.draw("a & b", [section_of(ours=[1.0, 2.0], peer=[4.0])]))
    widths = [float(bar.attrib["width"]) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths == [pytest.approx(widths[1] * 1.5 / 4), widths[1]]
