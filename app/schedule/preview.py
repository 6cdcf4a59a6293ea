"""Preview of a schedule: its next runs, with a note where the clock changes, and its rule in English."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cron_descriptor import ExpressionDescriptor

from app.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.cron_expression import CronExpression

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NextRun:
    """One run to come: the instant, the same in the schedule's zone, and what a clock change did to it."""

    run_at: datetime
    local_time: datetime
    note: str | None


def runs(schedule: Schedule, after: datetime, count: int, before: datetime | None = None) -> list[NextRun]:
    """List the next runs strictly after an instant: at most `count`, and none at or after `before`."""
    found: list[NextRun] = []
    tick = schedule.next_after(after)
    while tick is not None and len(found) < count and (before is None or tick < before):
        found.append(NextRun(tick, schedule.local(tick), _note(schedule, tick)))
        tick = schedule.next_after(tick)
    return found


def describe(text: str) -> str:
    """Describe a cron expression in English; raises InvalidCronError."""
    fields = CronExpression.parse(text)
    minutes, hours = _plain(fields.minutes, 60), _plain(fields.hours, 24)
    time = str(_descriptor(f"{minutes} {hours} * * *").get_description())
    months = str(_descriptor(f"* * * {_listed(fields.months, 12)} *").get_month_description())
    dates = months + _days(fields)
    is_daily = not dates and not fields.every_hour and "every" not in time.lower()
    return f"{time}, every day" if is_daily else time + dates


def _days(fields: CronExpression) -> str:
    """Join the two day fields by what holds between them, which cron-descriptor gets wrong where one has a step."""
    # Sunday last, so that FRI-SUN is a range.
    weekdays = tuple(sorted(day or 7 for day in fields.weekdays))
    by_day = _descriptor(f"0 0 {_listed(fields.days, 31)} * *").get_day_of_month_description()
    by_weekday = _descriptor(f"0 0 * * {_listed(weekdays, 7)}").get_day_of_week_description()
    open_days, open_weekdays = len(fields.days) == 31, len(weekdays) == 7
    if fields.either_day:
        every_day = open_days or open_weekdays
        return "" if every_day else f"{by_day}, or {_bare(by_weekday)}"
    if open_days or open_weekdays:
        return f"{'' if open_days else by_day}{'' if open_weekdays else by_weekday}"
    return f"{by_day}, and only if that is {_bare(by_weekday).removeprefix('on ')}"


def _bare(text: str) -> str:
    return text.removeprefix(", ").removeprefix("only ")


def _plain(values: Sequence[int], size: int) -> str:
    """Write minutes or hours: as a step only where it is as long over the end of the hour or day as within it."""
    steps = {later - earlier for earlier, later in pairwise((*values, values[0] + size))}
    if len(steps) == 1 and values[0] == 0 and len(values) > 2:
        (step,) = steps
        return "*" if step == 1 else f"*/{step}"
    return _listed(values, size)


def _listed(values: Sequence[int], size: int) -> str:
    """Write values as `*`, a range or a list: cron-descriptor reads other steps in its own way."""
    if len(values) == size:
        return "*"
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]}-{values[-1]}"
    return ",".join(map(str, values))


def _descriptor(text: str) -> ExpressionDescriptor:
    return ExpressionDescriptor(text, use_24hour_time_format=True, locale_code="en_US")


def _note(schedule: Schedule, tick: datetime) -> str | None:
    local = schedule.local(tick)
    if _comes_twice(local):
        time = f"{local:%H:%M} comes twice on this day"
        if schedule.fires_in_both_passes:
            return f"{time}: this is the {'second' if local.fold else 'first'} time, and it runs both times."
        return f"{time}: it runs the first time only."
    gap = _gap_before(schedule, tick)
    if gap is not None and any(map(schedule.matches, _minutes(*gap))):
        return f"Local times from {_date(gap[0])} to {_date(gap[1])} do not exist: what was due then runs once, here."
    return None


def _comes_twice(local: datetime) -> bool:
    first, second = local.replace(fold=0).astimezone(UTC), local.replace(fold=1).astimezone(UTC)
    return first < second


def _gap_before(schedule: Schedule, tick: datetime) -> tuple[datetime, datetime] | None:
    """Return the local times that a clock change at this very instant leaves out, from and to."""
    if schedule.passes_over_gaps:
        return None
    end = schedule.local(tick).replace(tzinfo=None)
    begin = schedule.local(tick - MICROSECOND).replace(tzinfo=None) + MICROSECOND
    return (begin, end) if begin < end else None


def _minutes(begin: datetime, end: datetime) -> Iterator[datetime]:
    while begin < end:
        yield begin
        begin += _MINUTE


def _date(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
