"""Where a next run moves when the time zone rules have changed, and what they are known by."""

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
        (NINE + HOUR, NINE + MINUTE, NINE - DAY, NINE + HOUR),  # its instant has passed by the present rules
        (NINE + DAY - HOUR, NINE + MINUTE, NINE, NINE + DAY),  # it ran today
        (NINE + HOUR, NINE - 5 * HOUR, None, NINE),
        (NINE + 30 * DAY, NINE - 5 * HOUR, NINE + 20 * DAY, NINE + 21 * DAY),
    ],
)
def test_a_next_run_is_where_the_rules_want_it_and_never_lost(
    was: datetime, horizon: datetime, last: datetime | None, is_: datetime
) -> None:
    created = NINE - 60 * DAY
    assert zone_rules.moved(DAILY, was, last_tick_at=last, created_at=created, horizon=horizon) == is_


def test_a_job_that_the_present_rules_end_stays_as_it_is() -> None:
    table = Timetable(cron="0 9 * * *", timezone="UTC", starts_at=NINE - DAY, ends_at=NINE)
    was = NINE - HOUR / 2
    assert zone_rules.moved(table, was, last_tick_at=NINE - DAY, created_at=NINE - DAY, horizon=was - MINUTE) == was


def test_the_digest_changes_with_a_rule_that_is_read(tmp_path: Path) -> None:
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
