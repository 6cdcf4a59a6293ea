"""Choice: the partitions of the next claim, and the number of executions of each."""

from collections.abc import Sequence

from app.queue.claiming.admission import AdmissionRule, Room
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.partition import Partition, Wanted
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import KnownPartitions


class Choice:
    """Takes the next partitions of a queue by priority, and of each the least number that all rules admit.

    Belongs to the thread of one consumer; does no I/O. `now` is `time.monotonic()`.
    """

    def __init__(
        self, queue: str, partitions: KnownPartitions, rules: Sequence[AdmissionRule], shares: Shares, known: FlowRules
    ) -> None:
        self._queue = queue
        self._partitions = partitions
        self._rules = rules
        self._plain_rules = [rule for rule in rules if not rule.of_settings]
        self._shares = shares
        self._settings = known
        self._had_settings = False
        self._now = 0.0  # of this claim
        self._closed: dict[Partition, Room] = {}  # by this claim

    def choose(self, now: float) -> list[Wanted]:
        """Open the partitions that rules open, then choose partitions and reserve slots for them.

        Partitions that a rule closes are left out, and others chosen instead.
        """
        self._now, partitions = now, self._partitions
        has_settings = bool(self._settings.by_endpoint)
        for rule in self._rules if has_settings or self._had_settings else self._plain_rules:
            opened = rule.begin(now)
            for endpoint in opened.endpoints:
                partitions.close(endpoint, now)
            for partition in opened.partitions:
                partitions.rest(partition, now)
        self._had_settings = has_settings
        self._shares.want(self._queue, partitions.wanting(now))
        while True:
            wanted = partitions.pick(now, self._admit)
            closed, self._closed = self._closed, {}
            for partition, room in closed.items():
                if room.of_endpoint:
                    partitions.close(partition.endpoint, room.closed_until)
                else:
                    partitions.rest(partition, room.closed_until)
            if wanted or not closed:
                return wanted

    def _admit(self, partition: Partition, most: int) -> int:
        """Reserve slots for a partition: the minimum of all rules, within the fair share of its endpoint."""
        now = self._now
        rules = self._rules if partition.endpoint in self._settings.by_endpoint else self._plain_rules
        for rule in rules:
            room = rule.room(partition, now)
            most = min(most, room.slots)
            if most <= 0:
                if room.closed_until > now:
                    self._closed[partition] = room
                    return 0
                break
        # Also for none: a refusal is followed by a wake-up when slots are given back.
        slots = self._shares.reserve(partition.endpoint, max(0, most))
        if slots:
            for rule in rules:
                rule.reserved(partition, slots)
        return slots
