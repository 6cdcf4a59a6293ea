"""Next runs after a change of the time zone rules, and the digest that identifies the rules."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import pytest

from app.schedule import zone_rules
from app.schedule.timetable import Timetable
from app.schedule.zones import DATABASE, file_of, time_zone

NINE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
ROOT = Path(__file__).parents[3]
ZONES = """
from datetime import datetime
from zoneinfo import ZoneInfo
from app.schedule.zones import names, time_zone
january = datetime(2026, 1, 1)
zones = ZoneInfo("Europe/Berlin"), time_zone("Europe/Berlin")
print(*(zone.utcoffset(january) for zone in zones), "localtime" in names())
"""
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
    with as_file(DATABASE) as database:
        shutil.copytree(database, tmp_path, dirs_exist_ok=True)
    assert zone_rules.digest(tmp_path) == zone_rules.digest()
    (tmp_path / "zoneinfo" / "Asia" / "Kolkata").write_bytes(b"TZif2 of another year")
    assert zone_rules.digest(tmp_path) != zone_rules.digest()


def test_zones_of_the_operating_system_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(file_of("Asia/Kolkata").read_bytes())
    (tmp_path / "localtime").write_bytes(file_of("Asia/Kolkata").read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", ZONES],
        env=os.environ | {"PYTHONTZPATH": str(tmp_path)},
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("5:30:00 1:00:00 False\n", "")


def test_zone_that_is_not_in_the_database_is_refused() -> None:
    for name in ("Factory", "../zones", "Mars/Olympus", ""):
        with pytest.raises(ZoneInfoNotFoundError):
            time_zone(name)
    assert time_zone("UTC") is time_zone("UTC")
