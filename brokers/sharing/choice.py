"""Choice: the partitions of the next claim, and how much of each."""

from collections.abc import Sequence

from app.queue.claiming.admission import AdmissionRule, Room
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Partition, Wanted
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import KnownPartitions


class Choice:
    """Takes the next partitions (`KnownPartitions`, by priority), and of each as much as every rule has room for.

    Belongs to the thread of one consumer; does no I/O. `now` is `time.monotonic()`.
    """

    def __init__(
        self, partitions: KnownPartitions, rules: Sequence[AdmissionRule], shares: Shares, settings: FlowRules
    ) -> None:
        self._partitions = partitions
        self._rules = rules
        self._plain_rules = [rule for rule in rules if not rule.of_settings]
        self._shares = shares
        self._settings = settings
        self._had_settings = False
        self._now = 0.0  # of this claim
        self._closed: dict[Partition, Room] = {}  # by this claim

    def begin(self, now: float) -> None:
        """Let the rules take in what has changed, and open what they say."""
        has_settings = bool(self._settings.by_endpoint)
        rules = self._rules if has_settings or self._had_settings else self._plain_rules
        self._had_settings = has_settings
        for rule in rules:
            opened = rule.begin(now)
            for endpoint in opened.endpoints:
                self._partitions.shut(endpoint, now)
            for partition in opened.partitions:
                self._partitions.rest(partition, now)

    def choose(self, now: float) -> list[Wanted]:
        """Choose partitions and reserve slots for them; again without the partitions that a rule has closed."""
        self._now = now
        while True:
            wanted = self._partitions.pick(now, self._admit)
            closed, self._closed = self._closed, {}
            for partition, room in closed.items():
                if room.of_endpoint:
                    self._partitions.shut(partition.endpoint, room.closed_until)
                else:
                    self._partitions.rest(partition, room.closed_until)
            if wanted or not closed:
                return wanted

    def _admit(self, partition: Partition, most: int) -> int:
        """Reserve slots for a partition: the least that any rule has room for, and that is left of its fair share."""
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
        # Also for none: a refusal is told when slots are given back.
        slots = self._shares.reserve(partition.endpoint, max(0, most))
        if slots:
            for rule in rules:
                rule.reserved(partition, slots)
        return slots
