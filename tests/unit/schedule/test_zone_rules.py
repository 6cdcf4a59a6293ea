"""Next runs after a change of the time zone rules, and the digest that identifies the rules."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.schedule import zone_rules
from app.schedule.timetable import Timetable

NINE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
DAILY = Timetable(cron="0 9 * * *", timezone="UTC", starts_at=NINE - 90 * DAY)


@pytest.mark.parametrize(
    ("was", "horizon", "last", "is_"),
    [
        (NINE, NINE - 5 * HOUR, NINE - DAY, NINE),
        (NINE + HOUR, NINE - 5 * HOUR, NINE - DAY, NINE),
        (NINE - HOUR, NINE - 5 * HOUR, NINE - DAY, NINE),
        (NINE + HOUR, NINE + MINUTE, NINE - DAY, NINE + HOUR),  # by the present rules, its instant has passed
        (NINE + DAY - HOUR, NINE + MINUTE, NINE, NINE + DAY),  # it ran today
        (NINE + HOUR, NINE - 5 * HOUR, None, NINE),
        (NINE + 30 * DAY, NINE - 5 * HOUR, NINE + 20 * DAY, NINE + 21 * DAY),
    ],
)
def test_next_run_moves_to_the_present_rules_and_is_never_lost(
    was: datetime, horizon: datetime, last: datetime | None, is_: datetime
) -> None:
    created = NINE - 60 * DAY
    assert zone_rules.moved(DAILY, was, last_tick_at=last, created_at=created, horizon=horizon) == is_


def test_job_that_ends_by_the_present_rules_keeps_its_next_run() -> None:
    table = Timetable(cron="0 9 * * *", timezone="UTC", starts_at=NINE - DAY, ends_at=NINE)
    was = NINE - HOUR / 2
    assert zone_rules.moved(table, was, last_tick_at=NINE - DAY, created_at=NINE - DAY, horizon=was - MINUTE) == was


def test_digest_changes_with_a_rule_that_is_read(tmp_path: Path) -> None:
    before = zone_rules.digest()
    assert zone_rules.digest() == before
    paths = zoneinfo.TZPATH
    (tmp_path / "Asia").mkdir()
    (tmp_path / "Asia" / "Kolkata").write_bytes(b"TZif2 of another year")
    try:
        zoneinfo.reset_tzpath([str(tmp_path), *paths])
        assert zone_rules.digest() != before
    finally:
        zoneinfo.reset_tzpath(paths)
    assert zone_rules.digest() == before
