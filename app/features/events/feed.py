"""Feeding streams: pages of events, each read once for all streams that are at the same place."""

from collections.abc import Iterable

from app.features.events import store as events_store
from app.features.events.event_cursor import Place
from app.features.events.event_messages import message
from app.features.events.stream import Stream
from app.kernel.db import Database

MOST_READS = 20  # in one go; who is far behind waits for the next one


class Feed:
    """Reads for all streams. Those that have all there is are at one place, and cost one statement together."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def serve(self, streams: Iterable[Stream]) -> bool:
        """Put into each what is new for it, as far as it has room; returns whether there is more for some."""
        hungry = [stream for stream in streams if stream.has_room]
        if not hungry:
            return False
        until = events_store.horizon(self._database)
        waiting = _by_place(hungry)
        for _ in range(MOST_READS):
            if not waiting:
                return False
            place = next(iter(waiting))
            group = waiting.pop(place)
            groups = frozenset().union(*(stream.wanted.groups for stream in group))
            labelled = any(stream.wanted.labels for stream in group)
            page = events_store.read(self._database, place, until, groups, labelled=labelled)
            written = [(event, message(event)) for event in page.events]
            with_room = [stream for stream in group if stream.put_events(written, page.up_to)]
            if not page.is_end and with_room:
                # Behind the others, so that each has its turn.
                waiting.setdefault(page.up_to, []).extend(with_room)
        return bool(waiting)


def _by_place(streams: Iterable[Stream]) -> dict[Place, list[Stream]]:
    # The latest first: who follows what happens is not kept waiting by those who are far behind.
    places: dict[Place, list[Stream]] = {}
    for stream in sorted(streams, key=lambda stream: stream.place.at, reverse=True):
        places.setdefault(stream.place, []).append(stream)
    return places
