"""Words: numbers, durations and instants as people read them, never more exact than they are."""

from datetime import UTC, datetime, timedelta

from app.kernel.formats import numbered

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
NOTHING = "\N{EN DASH}"


def number(value: float | None, *, or_more: bool = False) -> str:
    """Write a number with separators, such as `10,000+` for a count that ended at its bound."""
    if value is None:
        return NOTHING
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return f"{text}+" if or_more else text


def plural(value: int, noun: str, *, or_more: bool = False) -> str:
    """Write a number and its noun, such as `1 job` and `2 jobs`."""
    return numbered(value, noun, or_more=or_more)


def percent(share: float | None) -> str:
    """Write a share from 0 to 1 in percent; a share above 0 is never shown as none."""
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{min(share, 0.999) * 100 if share < 1 else 100.0:.1f} %"


def duration(milliseconds: float | None) -> str:
    """Write a duration in its two largest units, such as `84 ms`, `5.0 s`, `3 min 15 s` or `2 d 4 h`."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < 0:
        return f"-{duration(-milliseconds)}"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds >= 1 or milliseconds == 0 else "< 1 ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    left, parts = round(milliseconds / 1000) * 1000, list[str]()
    for size, unit in _UNITS:
        if left >= size or parts:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def ago(at: datetime | None, now: datetime) -> str:
    """Write the distance of an instant, such as `3 min ago` or `in 41 s`, in one unit."""
    if at is None:
        return NOTHING
    milliseconds = (now - at) / timedelta(milliseconds=1)
    if abs(milliseconds) < 1000:
        return "now"
    seconds = abs(milliseconds) / 1000
    size, unit = next((size // 1000, unit) for size, unit in _UNITS if seconds * 1000 >= size)
    text = f"{int(seconds // size)} {unit}"
    return f"{text} ago" if milliseconds > 0 else f"in {text}"


def instant(at: datetime | None, now: datetime) -> str:
    """Write an instant in the zone of `now`: the time of today, else with its date, and the year of another year."""
    if at is None:
        return NOTHING
    at = at.astimezone(now.tzinfo)
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b %H:%M:%S}" if at.year == now.year else f"{at.day} {at:%b %Y %H:%M}"


def full_instant(at: datetime) -> str:
    """Write an instant exactly, in UTC."""
    return f"{at.astimezone(UTC).isoformat(sep=' ', timespec='milliseconds').removesuffix('+00:00')} UTC"
