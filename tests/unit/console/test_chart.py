"""Charts: values by step for the script and for the table, gaps, sums, and the heatmap of lateness."""

import json
from datetime import UTC, datetime, timedelta

from app.console.views import words
from app.console.views.chart import charts_of
from app.console.views.delivery_totals import budget_words, total_of, up_to
from app.console.views.heatmap import heatmap_of
from app.features.rollups.delivery_history import DeliveryCounts, DeliveryHistory, Gauges, Point, Range
from app.features.rollups.distribution import Distribution
from schema.rollup_bounds import LATE_COLUMNS, TOOK_COLUMNS

START = datetime(2026, 3, 15, 12, tzinfo=UTC)


def counts(late: dict[int, int], failed: int = 0) -> DeliveryCounts:
    attempts = sum(late.values())
    found = Distribution.of_lateness([late.get(number, 0) for number in range(len(LATE_COLUMNS))])
    took = Distribution.of_duration([attempts, *(0 for _ in TOOK_COLUMNS[1:])])
    return DeliveryCounts(attempts, attempts - failed, 0, failed, 0, 0, 0, 0, found, took)


def history() -> DeliveryHistory:
    def at(number: int) -> datetime:
        return START + timedelta(minutes=number)

    points = [
        Point(at(0), 0, None, None),
        Point(at(1), 60, counts({0: 30, 3: 29, 15: 1}, failed=6), Gauges(7, 5000, 2, 3, 9)),
        Point(at(2), 40, counts({}), None),
    ]
    return DeliveryHistory(Range(START, at(3), 60), "", "", at(3), points, [])


def test_gap_has_no_value_and_a_quiet_step_has_zero() -> None:
    deliveries, lateness, *_, queues = charts_of(history())
    assert [line.values for line in deliveries.lines] == [[None, 1.0, 0.0], [None, 0.0, 0.0], [None, 0.1, 0.0]]
    assert [line.values for line in lateness.lines] == [[None, 1, None], [None, 25, None], [None, 3_600_001, None]]
    assert [line.values for line in queues.lines] == [[None, 7, None], [None, 3, None], [None, 9, None]]


def test_table_has_the_values_of_the_picture_newest_first() -> None:
    deliveries, lateness, *_ = charts_of(history())
    first, second = START + timedelta(minutes=1), START + timedelta(minutes=2)
    assert deliveries.rows == [
        (second, second + timedelta(seconds=40), ["0", "0", "0"]),
        (first, second, ["1", "0", "0.1"]),
    ]
    assert lateness.rows == [(first, second, ["≤ 1 ms", "≤ 25 ms", "> 1 h"])]
    data = json.loads(deliveries.data)
    assert [end - start for start, end in zip(data["at"], data["ends"], strict=True)] == [60, 60, 40]
    assert data["at"] == [round(START.timestamp()) + 60 * number for number in range(3)]
    assert [line["values"] for line in data["lines"]] == [[*line.values] for line in deliveries.lines]


def test_heatmap_shades_each_class_by_its_share() -> None:
    found = heatmap_of(history().points)
    assert (found.columns, found.labels[0], found.labels[-1]) == (3, "> 1 h", "≤ 1 ms")
    assert [(cell.column, cell.row, cell.shade) for cell in found.cells] == [(1, 15, 4), (1, 12, 4), (1, 0, 2)]
    assert found.cells[-1].words == "1 attempt > 1 h"


def test_sum_leaves_out_gaps() -> None:
    total, seconds = total_of(history().points)
    assert total is not None
    assert (total.attempts, total.failed, seconds) == (60, 6, 100)
    assert total_of([history().points[0]]) == (None, 0)


def test_percentiles_are_shown_as_bounds() -> None:
    assert [up_to(value) for value in (None, 1, 2_500, 10_000, 3_600_001)] == [
        words.NOTHING,
        "≤ 1 ms",
        "≤ 2.5 s",
        "≤ 10 s",
        "> 1 h",
    ]


def test_budget_is_the_share_that_may_still_be_late() -> None:
    words_of = [budget_words(share) for share in (1.0, 0.9999, 0.999, 0.9, None)]
    rests = [text.removeprefix("of the 0.1 % that may be late, ") for text in words_of]
    assert rests == ["100.0 % are left", "90.0 % are left", "none is left", "none is left", ""]
