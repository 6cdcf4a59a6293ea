"""Ready: the lanes that have something due, in the order in which they are claimed."""

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from app.queue.claiming.partition import Lane

Take = Callable[[Lane, int], int]
"""Reserves up to so many slots for a lane; returns how many, 0 where its endpoint has no room."""

ONE_IN = 8  # rows go to lower priorities
MOST_PASSED_OVER = 1400  # rows for which lower priorities are owed some, once they have room
MOST_REMEMBERED = 4096  # endpoints, by when they were served; the others count as never served


@dataclass(slots=True, eq=False)
class _Group:
    """The lanes of one endpoint and priority, the one served longest ago first."""

    endpoint: str
    priority: int
    lanes: OrderedDict[Lane, None] = field(default_factory=OrderedDict)
    entry: int = 0  # the number of its valid entry in the heap of its priority; 0 for none


class Ready:
    """Lanes that have something due, by priority, then by which endpoint was served longest ago, then by which lane.

    Lower priorities get one of ONE_IN rows as long as the highest one takes all others. Not thread-safe.
    """

    def __init__(self) -> None:
        self.open_lanes: dict[int, int] = {}  # how many, by priority
        self.wanting: set[str] = set()  # endpoints that have a lane here and are not shut
        self.top: int | None = None  # the priority of which each row counts for the lower ones
        self._groups: dict[str, dict[int, _Group]] = {}
        self._bands: dict[int, list[tuple[int, int, _Group]]] = {}  # heaps, by when the endpoint was served
        self._served: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._shut: dict[str, float] = {}
        self._passed_over = 0  # rows of the highest priority that were claimed while lower ones waited

    def add(self, lane: Lane) -> None:
        """Take in a lane that is not here yet, as the last one of its endpoint."""
        endpoint, priority = lane.endpoint, lane.priority
        groups = self._groups.setdefault(endpoint, {})
        group = groups.get(priority)
        if group is None:
            group = groups[priority] = _Group(endpoint, priority)
        group.lanes[lane] = None
        if endpoint not in self._shut:
            self.wanting.add(endpoint)
            self.open_lanes[priority] = self.open_lanes.get(priority, 0) + 1
            if not group.entry:
                group.entry = next(self._numbers)
                entry = self._served.get(endpoint, 0), group.entry, group
                heapq.heappush(self._bands.setdefault(priority, []), entry)

    def discard(self, lane: Lane) -> None:
        """Let a lane go that is here."""
        groups = self._groups[lane.endpoint]
        group = groups[lane.priority]
        del group.lanes[lane]
        if lane.endpoint not in self._shut:
            left = self.open_lanes.pop(lane.priority) - 1
            if left:
                self.open_lanes[lane.priority] = left
            else:
                del self._bands[lane.priority]
        if not group.lanes:
            group.entry = 0
            del groups[lane.priority]
        if not groups:
            del self._groups[lane.endpoint]
            self.wanting.discard(lane.endpoint)

    def shut(self, endpoint: str, until: float) -> None:
        """Offer no lane of an endpoint before an instant."""
        was_open = endpoint not in self._shut
        self._shut[endpoint] = until
        self.wanting.discard(endpoint)
        for group in self._groups.get(endpoint, {}).values() if was_open else ():
            group.entry = 0
            self._count(group.priority, -len(group.lanes))

    def open_until(self, now: float) -> float:
        """Open whatever was shut until now; returns when the next one opens."""
        for endpoint in [endpoint for endpoint, until in self._shut.items() if until <= now]:
            del self._shut[endpoint]
            for group in self._groups.get(endpoint, {}).values():
                self._count(group.priority, len(group.lanes))
                self.wanting.add(endpoint)
                self._enqueue(group)
        return min(self._shut.values(), default=inf)

    def pick(self, take: Take, appetite_of: Callable[[Lane], int], *, arms: int, most: int) -> dict[Lane, int]:
        """Choose up to `arms` lanes and reserve slots for them, `most` in all; returns how many each has got."""
        if len(self._served) > MOST_REMEMBERED:
            self._served.clear()
        priorities = sorted(self.open_lanes, reverse=True)
        if len(priorities) == 1 and self.open_lanes[priorities[0]] == 1:
            self.top, self._passed_over = None, 0
            (endpoint,) = self.wanting
            (lane,) = self._groups[endpoint][priorities[0]].lanes
            self._served[endpoint] = next(self._numbers)
            got = take(lane, min(most, appetite_of(lane)))
            return {lane: got} if got else {}
        choice = _Choice(take, appetite_of, arms, most)
        owed = self._passed_over // (ONE_IN - 1) if len(priorities) > 1 else 0
        if owed:
            self._fill(choice, priorities[1:], min(owed, most))
        if len(priorities) > 1:
            # Priority goes before appetite: the highest takes all it may, but for the part of lower ones in this claim.
            choice.eager = priorities[0]
            self._fill(choice, priorities[:1], choice.most if owed else choice.most - choice.most // ONE_IN)
        for priority in (*priorities[1:], priorities[0]):
            self._fill(choice, [priority], most)
        # With few slots there may be none left for the highest after what was owed: it is no less the highest.
        self.top = priorities[0] if owed else max((lane.priority for lane in choice.slots), default=None)
        if self.top is None or min(priorities) == self.top:
            self.top, self._passed_over = None, 0
        self._passed_over = min(self._passed_over, MOST_PASSED_OVER)
        return choice.slots

    def claimed(self, found: Mapping[Lane, int]) -> None:
        """Take in how many rows were found of the lanes that were picked last, if that was with a `top`."""
        for lane, count in found.items():
            self._passed_over += count if lane.priority == self.top else -count * (ONE_IN - 1)
        self._passed_over = max(0, self._passed_over)

    def _fill(self, choice: "_Choice", priorities: Sequence[int], most: int) -> None:
        """Choose lanes of some priorities, one of each endpoint before a second one of any."""
        most, waiting = min(most, choice.most), sum(self.open_lanes[priority] for priority in priorities)
        chosen: list[Lane] = []
        aside: list[_Group] = []
        while most > 0 and len(choice.slots) < choice.arms:
            group = self._next(priorities)
            if group is None:
                break
            lane = next(iter(group.lanes))
            if lane in choice.slots or group.endpoint in choice.refused:
                aside.append(group)
                continue
            group.lanes.move_to_end(lane)
            arms = max(1, min(choice.arms - len(choice.slots), waiting - len(chosen)))
            got = choice.ask(lane, -(-most // arms))
            if got:
                most -= got
                chosen.append(lane)
                self._served[group.endpoint] = next(self._numbers)
                self._enqueue(group)
            else:
                aside.append(group)
        for lane in chosen:
            most -= choice.ask(lane, most)
        for group in aside:
            self._enqueue(group)

    def _next(self, priorities: Sequence[int]) -> _Group | None:
        """Take the group whose endpoint was served longest ago out of the heaps of some priorities."""
        while True:
            first: list[tuple[int, int, _Group]] | None = None
            for heap in (self._bands[priority] for priority in priorities):
                while heap and heap[0][2].entry != heap[0][1]:
                    heapq.heappop(heap)
                if heap and (first is None or heap[0] < first[0]):
                    first = heap
            if first is None:
                return None
            served, _, group = heapq.heappop(first)
            group.entry = 0
            if self._served.get(group.endpoint, 0) == served:
                return group
            self._enqueue(group)  # it was served by another priority meanwhile

    def _enqueue(self, group: _Group) -> None:
        group.entry = next(self._numbers)
        heapq.heappush(self._bands[group.priority], (self._served.get(group.endpoint, 0), group.entry, group))

    def _count(self, priority: int, more: int) -> None:
        lanes = self.open_lanes.get(priority, 0) + more
        if lanes:
            self.open_lanes[priority] = lanes
            self._bands.setdefault(priority, [])
        else:
            del self.open_lanes[priority], self._bands[priority]


@dataclass(slots=True)
class _Choice:
    """What a pick has chosen so far."""

    take: Take
    appetite_of: Callable[[Lane], int]
    arms: int
    most: int
    slots: dict[Lane, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    eager: int | None = None  # the priority whose lanes are asked for more than their appetite

    def ask(self, lane: Lane, most: int) -> int:
        """Reserve up to so many more slots for a lane, within its appetite; returns how many."""
        most = min(most, self.most)
        if lane.priority != self.eager:
            most = min(most, self.appetite_of(lane) - self.slots.get(lane, 0))
        if most <= 0:
            return 0
        got = self.take(lane, most)
        self.most -= got
        if got:
            self.slots[lane] = self.slots.get(lane, 0) + got
        else:
            self.refused.add(lane.endpoint)
        return got
