"""Preview of a schedule: its rule in English, and its runs around clock changes."""

from datetime import UTC, datetime, timedelta

import pytest

from app.kernel.errors import InvalidCronError
from app.schedule import preview
from app.schedule.cron import Schedule
from tests.cases import each_case


@each_case(
    ("cron", "english"),
    [
        ("* * * * *", "Every minute"),
        ("*/10 * * * *", "Every 10th minute of every hour"),
        # A step that does not divide the hour has a shorter last distance: "every 7th minute" would be wrong.
        ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49, and 56 of every hour"),
        ("59/15 * * * *", "At minute 59 of every hour"),
        ("0,30 * * * *", "At minutes 0 and 30 of every hour"),
        ("0 */7 * * *", "At 00:00, 07:00, 14:00, and 21:00 every day"),
        ("0 */6 * * *", "At 00:00, 06:00, 12:00, and 18:00 every day"),
        ("0 */4 * * *", "At minute 0 past hours 0, 4, 8, 12, 16, and 20"),
        ("30 2 * * *", "At 02:30 every day"),
        ("0 9-9 * * *", "At 09:00 every day"),
        ("*/10 9-17 * * *", "Every 10th minute from 09:00 through 17:59"),
        ("0,30 9-17 * * MON-FRI", "At minutes 0 and 30 past every hour from 9 through 17 on Monday through Friday"),
        ("0 9 * * 7", "At 09:00 on Sunday"),
        ("0 9 * * FRI-SUN", "At 09:00 on Friday through Sunday"),
        ("0 9 * * 1/2", "At 09:00 on Monday, Wednesday, Friday, and Sunday"),
        ("0 9 * * */7", "At 09:00 on Sunday"),
        ("0 0 29 2 *", "At 00:00 on February 29"),
        ("0 0 21,31 * *", "At 00:00 on the 21st and the 31st day of month"),
        ("0 0 11-13 * *", "At 00:00 on every day of month from 11 through 13"),
        ("0 0 * 1-3 *", "At 00:00 every day in January, February, and March"),
        ("0 0 1 1,2/3 *", "At 00:00 on the first day of January, February, May, August, and November"),
        # Either day field suffices, unless a day field begins with a star: then both must match.
        ("0 0 13 * FRI", "At 00:00 on the 13th day of month or on Friday"),
        ("0 0 1 * 1-5", "At 00:00 on the first day of month or on Monday through Friday"),
        ("0 0 31 2 MON", "At 00:00 on the 31st day of month or on Monday in February"),
        ("0 0 1-31 * MON", "At 00:00 every day"),
        ("0 0 13 * 0-6", "At 00:00 every day"),
        ("0 0 1-7 * */7", "At 00:00 on every day of month from 1 through 7 if it's on Sunday"),
        ("0 0 */15 * MON", "At 00:00 on the first, the 16th, and the 31st day of month if it's on Monday"),
        ("@hourly", "At the start of every hour"),
        ("@daily", "At 00:00 every day"),
        ("@midnight", "At 00:00 every day"),
        ("@weekly", "At 00:00 on Sunday"),
        ("@monthly", "At 00:00 on the first day of every month"),
        ("@Yearly", "At 00:00 on January 1"),
        ("@annually", "At 00:00 on January 1"),
    ],
)
def test_rule_is_described_in_english(cron: str, english: str) -> None:
    assert preview.describe(cron) == english


def test_invalid_rule_has_no_description() -> None:
    with pytest.raises(InvalidCronError):
        preview.describe("0 0 L * *")


def notes(cron: str, zone: str, after: datetime, count: int) -> list[tuple[str, str | None]]:
    found = preview.runs(Schedule.parse(cron, zone), after, count)
    assert all(run.run_at == run.local_time.astimezone(UTC) for run in found)
    return [(run.local_time.strftime("%d %H:%M %z"), run.note) for run in found]


SPRING, AUTUMN = datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 10, 24, 22, 59, tzinfo=UTC)
SKIPPED = "Local times from 2026-03-29 02:00 to 2026-03-29 03:00 do not exist: runs due then merge into this one."


def test_moved_run_has_a_note() -> None:
    assert notes("30 2 * * *", "Europe/Berlin", SPRING, 2) == [("29 03:00 +0200", SKIPPED), ("30 02:30 +0200", None)]


def test_run_that_replaces_skipped_runs_has_a_note() -> None:
    assert notes("0 2,3 * * *", "Europe/Berlin", SPRING, 2) == [("29 03:00 +0200", SKIPPED), ("30 02:00 +0200", None)]


def test_run_at_the_end_of_a_gap_without_skipped_runs_has_no_note() -> None:
    assert notes("0 3 * * *", "Europe/Berlin", SPRING, 1) == [("29 03:00 +0200", None)]
    hourly = notes("0 * * * *", "Europe/Berlin", SPRING, 2)
    assert hourly == [("29 01:00 +0100", None), ("29 03:00 +0200", None)]


def test_repeated_local_time_has_a_note_about_the_run() -> None:
    once = "02:30 comes twice on this day: it runs the first time only."
    assert notes("30 2 * * *", "Europe/Berlin", AUTUMN, 2) == [("25 02:30 +0200", once), ("26 02:30 +0100", None)]
    first = "02:30 comes twice on this day: this is the first time, and it runs both times."
    assert notes("30 * * * *", "Europe/Berlin", AUTUMN, 5) == [
        ("25 01:30 +0200", None),
        ("25 02:30 +0200", first),
        ("25 02:30 +0100", first.replace("first", "second")),
        ("25 03:30 +0100", None),
        ("25 04:30 +0100", None),
    ]


def test_skipped_day_has_a_note() -> None:
    (run, note), _ = notes("0 9 * * *", "Pacific/Apia", datetime(2011, 12, 29, 20, tzinfo=UTC), 2)
    assert run == "31 00:00 +1400"
    assert note is not None
    assert "from 2011-12-30 00:00 to 2011-12-31 00:00" in note


def test_runs_end_before_a_given_instant_and_with_the_calendar() -> None:
    schedule = Schedule.parse("0 0 * * *", "UTC")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    assert [run.run_at.day for run in preview.runs(schedule, begin, 9, begin + timedelta(days=3))] == [2, 3]
    assert len(preview.runs(schedule, datetime(9899, 12, 30, tzinfo=UTC), 9)) == 1
