"""Ready partitions: the partitions with due executions, in the order in which they are claimed."""

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from app.queue.claiming.partition import Partition

Take = Callable[[Partition, int], int]
"""Reserves up to a number of slots for a partition; returns how many, 0 if a rule refuses its endpoint."""

ONE_IN = 8  # rows go to lower priorities
MAX_PASSED_OVER = 1400  # rows of the highest priority for which lower priorities get a part later
MAX_REMEMBERED = 4096  # endpoints with their last turn; the rest counts as never served


@dataclass(slots=True)
class Known:
    """A partition with executions that are due now or soon."""

    since: datetime  # a claim reads from here
    batch: int  # rows to claim at once
    instants: set[datetime | float] = field(default_factory=set)  # to come, on the database's clock or on ours
    is_ready: bool = False
    rests_until: float = -inf


@dataclass(slots=True, eq=False)
class _Group:
    """The partitions of one endpoint and priority, by their last turn."""

    endpoint: str
    priority: int
    partitions: OrderedDict[Partition, None] = field(default_factory=OrderedDict)
    entry: int = 0  # number of its valid entry in the heap of its priority; 0 for none


class Ready:
    """Partitions with due executions, by priority, then by the last turn of the endpoint and of the partition.

    Lower priorities get one of ONE_IN rows while the highest priority takes the rest. Not thread-safe.
    """

    def __init__(self) -> None:
        self.open_partitions: dict[int, int] = {}  # their number, by priority
        self.wanting: set[str] = set()  # open endpoints with a partition here
        self.top: int | None = None  # the priority with rows that count for lower priorities
        self._groups: dict[str, dict[int, _Group]] = {}
        self._bands: dict[int, list[tuple[int, int, _Group]]] = {}  # heaps, by the last turn of the endpoint
        self._served: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._closed: dict[str, float] = {}
        self._passed_over = 0  # claimed rows of the highest priority while lower priorities waited

    def add(self, partition: Partition) -> None:
        """Add a new partition, as the last one of its endpoint."""
        endpoint, priority = partition.endpoint, partition.priority
        groups = self._groups.setdefault(endpoint, {})
        group = groups.get(priority)
        if group is None:
            group = groups[priority] = _Group(endpoint, priority)
        group.partitions[partition] = None
        if endpoint not in self._closed:
            self.wanting.add(endpoint)
            self.open_partitions[priority] = self.open_partitions.get(priority, 0) + 1
            if not group.entry:
                group.entry = next(self._numbers)
                entry = self._served.get(endpoint, 0), group.entry, group
                heapq.heappush(self._bands.setdefault(priority, []), entry)

    def discard(self, partition: Partition) -> None:
        """Remove a partition."""
        groups = self._groups[partition.endpoint]
        group = groups[partition.priority]
        del group.partitions[partition]
        if partition.endpoint not in self._closed:
            left = self.open_partitions.pop(partition.priority) - 1
            if left:
                self.open_partitions[partition.priority] = left
            else:
                del self._bands[partition.priority]
        if not group.partitions:
            group.entry = 0
            del groups[partition.priority]
        if not groups:
            del self._groups[partition.endpoint]
            self.wanting.discard(partition.endpoint)

    def close(self, endpoint: str, until: float) -> None:
        """Close the partitions of an endpoint until an instant."""
        was_open = endpoint not in self._closed
        self._closed[endpoint] = until
        self.wanting.discard(endpoint)
        for group in self._groups.get(endpoint, {}).values() if was_open else ():
            group.entry = 0
            self._count(group.priority, -len(group.partitions))

    def open_until(self, now: float) -> float:
        """Open the endpoints that were closed until now; return when the next one opens."""
        for endpoint in [endpoint for endpoint, until in self._closed.items() if until <= now]:
            del self._closed[endpoint]
            for group in self._groups.get(endpoint, {}).values():
                self._count(group.priority, len(group.partitions))
                self.wanting.add(endpoint)
                self._enqueue(group)
        return min(self._closed.values(), default=inf)

    def pick(self, take: Take, known: Mapping[Partition, Known], *, arms: int, most: int) -> dict[Partition, int]:
        """Choose up to `arms` partitions and reserve slots for them, `most` in all; return the slots of each."""
        if len(self._served) > MAX_REMEMBERED:
            self._served.clear()
        priorities = sorted(self.open_partitions, reverse=True)
        if len(priorities) == 1 and self.open_partitions[priorities[0]] == 1:
            self.top, self._passed_over = None, 0
            (endpoint,) = self.wanting
            (partition,) = self._groups[endpoint][priorities[0]].partitions
            self._served[endpoint] = next(self._numbers)
            got = take(partition, min(most, known[partition].batch))
            return {partition: got} if got else {}
        choice = _Choice(take, known, arms, most)
        owed = self._passed_over // (ONE_IN - 1) if len(priorities) > 1 else 0
        if owed:
            self._fill(choice, priorities[1:], min(owed, most))
        if len(priorities) > 1:
            # The highest priority may exceed its batch size, except for the part of lower priorities in this claim.
            choice.eager = priorities[0]
            self._fill(choice, priorities[:1], choice.most if owed else choice.most - choice.most // ONE_IN)
        for priority in (*priorities[1:], priorities[0]):
            self._fill(choice, [priority], most)
        # With few slots, the part of lower priorities may leave none for the highest: it stays the highest.
        self.top = priorities[0] if owed else max((partition.priority for partition in choice.slots), default=None)
        if self.top is None or min(priorities) == self.top:
            self.top, self._passed_over = None, 0
        self._passed_over = min(self._passed_over, MAX_PASSED_OVER)
        return choice.slots

    def claimed(self, found: Mapping[Partition, int]) -> None:
        """Count the rows found in the partitions of the last pick, if that had a `top`."""
        for partition, count in found.items():
            self._passed_over += count if partition.priority == self.top else -count * (ONE_IN - 1)
        self._passed_over = max(0, self._passed_over)

    def _fill(self, choice: "_Choice", priorities: Sequence[int], most: int) -> None:
        """Choose partitions of these priorities, one of each endpoint before a second one of any."""
        most, waiting = min(most, choice.most), sum(self.open_partitions[priority] for priority in priorities)
        chosen: list[Partition] = []
        aside: list[_Group] = []
        while most > 0 and len(choice.slots) < choice.arms:
            group = self._next(priorities)
            if group is None:
                break
            partition = next(iter(group.partitions))
            if partition in choice.slots or group.endpoint in choice.refused:
                aside.append(group)
                continue
            group.partitions.move_to_end(partition)
            arms = max(1, min(choice.arms - len(choice.slots), waiting - len(chosen)))
            got = choice.ask(partition, -(-most // arms))
            if got:
                most -= got
                chosen.append(partition)
                self._served[group.endpoint] = next(self._numbers)
                self._enqueue(group)
            else:
                aside.append(group)
        for partition in chosen:
            most -= choice.ask(partition, most)
        for group in aside:
            self._enqueue(group)

    def _next(self, priorities: Sequence[int]) -> _Group | None:
        """Remove and return the group whose endpoint had its last turn first, from the heaps of these priorities."""
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
            self._enqueue(group)  # another priority of the endpoint had a turn

    def _enqueue(self, group: _Group) -> None:
        group.entry = next(self._numbers)
        heapq.heappush(self._bands[group.priority], (self._served.get(group.endpoint, 0), group.entry, group))

    def _count(self, priority: int, more: int) -> None:
        partitions = self.open_partitions.get(priority, 0) + more
        if partitions:
            self.open_partitions[priority] = partitions
            self._bands.setdefault(priority, [])
        else:
            del self.open_partitions[priority], self._bands[priority]


@dataclass(slots=True)
class _Choice:
    """State of one pick."""

    take: Take
    known: Mapping[Partition, Known]
    arms: int
    most: int
    slots: dict[Partition, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    eager: int | None = None  # priority whose partitions may exceed their batch size

    def ask(self, partition: Partition, most: int) -> int:
        """Reserve up to `most` more slots for a partition, within its batch size; return how many."""
        most = min(most, self.most)
        if partition.priority != self.eager:
            most = min(most, self.known[partition].batch - self.slots.get(partition, 0))
        if most <= 0:
            return 0
        got = self.take(partition, most)
        self.most -= got
        if got:
            self.slots[partition] = self.slots.get(partition, 0) + got
        else:
            self.refused.add(partition.endpoint)
        return got
