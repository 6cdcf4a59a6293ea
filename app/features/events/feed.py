"""Feed of the streams: pages of events, each read once for all streams at the same position."""

from collections.abc import Iterable

from app.features.events import store as events_store
from app.features.events.event_cursor import EventPosition
from app.features.events.event_messages import message
from app.features.events.stream import Stream
from app.kernel.db import Database

MOST_READS = 20  # in one turn; streams far behind wait for the next turn


class Feed:
    """Reads for all streams. All streams without a backlog share one position, and so one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def serve(self, streams: Iterable[Stream]) -> bool:
        """Add new events to each stream that has room; returns whether a stream has more to read."""
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
                # At the end of the order, so that each position has its turn.
                waiting.setdefault(page.up_to, []).extend(with_room)
        return bool(waiting)


def _by_place(streams: Iterable[Stream]) -> dict[EventPosition, list[Stream]]:
    # The latest position first: streams that are up to date do not wait for streams that are far behind.
    places: dict[EventPosition, list[Stream]] = {}
    for stream in sorted(streams, key=lambda stream: stream.place.at, reverse=True):
        places.setdefault(stream.place, []).append(stream)
    return places
