"""Places for messages in the processes that run actors, and the rule that claims no more executions than places."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.partition import Partition
from brokers.sharing.fair_shares import Shares

GATHER_SECONDS = 0.005  # for more places, while all processes have work in advance: few claims of many cost less
MOST_GATHERING_SECONDS = 0.05  # then a message of a high priority takes its place
PART = 4  # of all places, or of the slots of the worker, that are free at least then
ASK_SECONDS = 30.0  # until an endpoint without a process is asked about again; a new process opens it at once


@dataclass(eq=False, slots=True)
class ActorPlaces:
    """Places of one connected process: up to `total` messages, and up to `by_queue` of each Dramatiq queue.

    The delivery loop writes it, and consumers read it: a number may be a moment old, so a delivery may have to wait.
    """

    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Dramatiq queue by the endpoint of each actor of the process."""
    total: int = 0
    enough: int = 0
    """Messages with which all threads of the process are busy for a while."""
    by_queue: Mapping[str, int] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    """Messages in the process, by queue."""
    held_count: int = 0

    def free(self, endpoint: str) -> int:
        """Return the number of further messages for an endpoint that the process takes now."""
        queue = self.endpoints.get(endpoint)
        if queue is None:
            return 0
        return max(0, min(self.total - self.held_count, self.by_queue.get(queue, 0) - self.held[queue]))

    def take(self, queue: str) -> None:
        """Count a message that goes to the process."""
        self.held[queue] += 1
        self.held_count += 1

    def give_back(self, queue: str) -> None:
        """Count a message that has left the process."""
        self.held[queue] -= 1
        self.held_count -= 1


class ActorProcesses:
    """The connected processes of a worker; `change` is another object after each change of their endpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: tuple[ActorPlaces, ...] = ()
        self._groups: dict[str, tuple[list[ActorPlaces], frozenset[str]]] = {}
        self.assigned = Counter[str]()  # messages in the processes, by endpoint
        self.change = object()

    def serving(self, endpoint: str) -> list[ActorPlaces]:
        """Return the places of the processes that have the actor of an endpoint."""
        return [each for each in self._all if endpoint in each.endpoints]

    def add(self, places: ActorPlaces) -> None:
        """Add a process, or apply its changed endpoints."""
        with self._lock:
            if places not in self._all:
                self._all = (*self._all, places)
            self._groups, self.change = {}, object()

    def remove(self, places: ActorPlaces) -> None:
        """Remove a process."""
        with self._lock:
            self._all = tuple(each for each in self._all if each is not places)
            self._groups, self.change = {}, object()

    def room(self, endpoint: str, slots: Mapping[str, int]) -> int | None:
        """Return how many executions of an endpoint may be claimed; None if no process has its actor.

        `slots` are claims and reservations by endpoint. Claims that are in no process yet will take places, too.
        """
        serving, sharing = self._group(endpoint)
        if not serving:
            return None
        on_the_way = sum(max(0, slots.get(each, 0) - self.assigned[each]) for each in sharing)
        return max(0, sum(each.free(endpoint) for each in serving) - on_the_way)

    def can_wait(self, endpoint: str, room: int, free_slots: int, capacity: int) -> bool:
        """Return whether a claim can wait for more places or slots, because all processes have work in advance."""
        serving, _ = self._group(endpoint)
        if any(each.held_count <= each.enough for each in serving):
            return False
        return room < sum(each.total for each in serving) // PART or free_slots < capacity // PART

    def _group(self, endpoint: str) -> tuple[list[ActorPlaces], frozenset[str]]:
        """Return the processes with the actor of an endpoint, and all endpoints that they serve."""
        groups = self._groups  # another object after a change
        if (found := groups.get(endpoint)) is None:
            serving = self.serving(endpoint)
            found = groups[endpoint] = serving, frozenset(chain.from_iterable(each.endpoints for each in serving))
        return found


class ActorAdmission(AdmissionRule):
    """Admits as many executions of an actor as the connected processes have places.

    In the queue of actors an endpoint without a process is closed. In other queues, to which a route leads, such an
    endpoint may be of another type, so it is open, and its dispatcher releases the execution.
    """

    def __init__(self, processes: ActorProcesses, shares: Shares, is_actor_queue: bool) -> None:
        self._processes = processes
        self._shares = shares
        self._is_actor_queue = is_actor_queue
        self._closed = set[str]()
        self._gathering = dict[str, float]()  # when it began, by endpoint
        self._ended = dict[str, float]()  # instant of the last claim that did not wait
        self._seen: object = None

    def begin(self, now: float) -> Opened:
        """Return the endpoints whose first process has connected."""
        if not self._closed or self._seen is self._processes.change:
            return NOTHING_OPENED
        self._seen = self._processes.change
        opened = {endpoint for endpoint in self._closed if self._processes.serving(endpoint)}
        self._closed -= opened
        return Opened(opened)

    def room(self, partition: Partition, now: float) -> Room:
        """Return the places for the actor of a partition's endpoint."""
        room = self._processes.room(partition.endpoint, self._shares.slots)
        if room is not None:
            if room and self._gathers(partition.endpoint, room, now):
                return Room(0, now + GATHER_SECONDS, of_endpoint=True)
            return Room(room)
        if not self._is_actor_queue:
            return OPEN
        self._closed.add(partition.endpoint)
        return Room(0, now + ASK_SECONDS, of_endpoint=True)

    def _gathers(self, endpoint: str, room: int, now: float) -> bool:
        """Return whether the claim waits for more room."""
        if self._ended.get(endpoint) == now:
            return False  # the same claim, for another partition
        shares = self._shares
        waits = self._processes.can_wait(endpoint, room, shares.free(), shares.capacity)
        if waits and now < self._gathering.setdefault(endpoint, now) + MOST_GATHERING_SECONDS:
            return True
        self._gathering.pop(endpoint, None)
        self._ended[endpoint] = now
        return False
