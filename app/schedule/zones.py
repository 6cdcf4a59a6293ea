"""Time zones, as the distribution `tzdata` defines them: the same in all processes of an installation.

The database of the operating system is not read: hosts update it at different times, and would compute different ticks.
"""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.kernel.suggestions import did_you_mean

DATABASE: Traversable = files("tzdata")


@cache
def names() -> frozenset[str]:
    """Return the names of the IANA database, without the name of no zone."""
    return frozenset(DATABASE.joinpath("zones").read_text("utf-8").split()) - {"Factory"}


def fault_of(name: str) -> str | None:
    """Return the message for a name that is not in the IANA database."""
    if name in names():
        return None
    known = {zone.rpartition("/")[2].lower(): zone for zone in sorted(names(), reverse=True)}
    near = known.get(name.lower().replace(" ", "_"))
    remedy = f" Did you mean {near!r}?" if near else did_you_mean(name, sorted(names()))
    return f"Must be a time zone of the IANA database, such as Europe/Berlin or UTC.{remedy}"


@cache
def time_zone(name: str) -> ZoneInfo:
    """Return a time zone, one object for each name; raises ZoneInfoNotFoundError."""
    if name not in names():
        raise ZoneInfoNotFoundError(f"No time zone found with key {name}")
    with file_of(name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def change_between(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the instant at which the offset of `after` begins; there is one change between the two."""
    offset = after.astimezone(zone).utcoffset()
    low, high = int(before.timestamp()), int(after.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return datetime.fromtimestamp(high, UTC)


def file_of(name: str, database: Traversable = DATABASE) -> Traversable:
    """Return the file with the rules of a zone."""
    return database.joinpath("zoneinfo", *name.split("/"))
