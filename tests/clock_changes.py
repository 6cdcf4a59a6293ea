"""Zones with clock changes of every kind, and their changes from 2020 to 2035."""

import bisect
from datetime import UTC, datetime, timedelta
from functools import cache

from app.schedule.zones import time_zone

# Changes of half an hour, of two hours, at midnight, and in both directions in one Ramadan. Zones that abolished or
# reintroduced clock changes, and changes of the whole rule.
ZONES = [
    *("Europe/Berlin", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Santiago", "America/Havana"),
    *("America/St_Johns", "America/Nuuk", "America/Scoresbysund", "America/Asuncion", "America/Mexico_City"),
    *(
        "Australia/Lord_Howe",
        "Pacific/Chatham",
        "Pacific/Apia",
        "Antarctica/Troll",
        "Africa/Casablanca",
        "Africa/Cairo",
    ),
    *("Africa/Juba", "Asia/Tehran", "Asia/Gaza", "Asia/Amman", "Asia/Beirut", "Asia/Almaty", "Europe/Volgograd"),
]


@cache
def transitions(zone: str) -> tuple[datetime, ...]:
    info, found = time_zone(zone), []
    begin, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2020, 2036))

    def offset(second: int) -> timedelta | None:
        return datetime.fromtimestamp(second, info).utcoffset()

    for day in range(begin, end, 43_200):
        if offset(day) != offset(day + 43_200):
            after = bisect.bisect_left(range(day, day + 43_200), True, key=lambda s, d=day: offset(s) != offset(d))
            found.append(datetime.fromtimestamp(day + after, UTC))
    return tuple(found)
