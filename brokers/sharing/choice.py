"""Choice: the lanes of the next claim, and how much of each."""

from collections.abc import Sequence

from app.queue.claiming.admission import AdmissionRule, Room
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Lane, Wanted
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import Lanes


class Choice:
    """Takes the lanes whose turn it is (`Lanes`, by priority), and of each as much as every rule has room for.

    Belongs to the thread of one consumer; does no I/O. `now` is `time.monotonic()`.
    """

    def __init__(self, lanes: Lanes, rules: Sequence[AdmissionRule], shares: Shares, settings: FlowRules) -> None:
        self._lanes = lanes
        self._rules = rules
        self._plain_rules = [rule for rule in rules if not rule.of_settings]
        self._shares = shares
        self._settings = settings
        self._had_settings = False
        self._closed: dict[Lane, Room] = {}  # by this claim

    def begin(self, now: float) -> None:
        """Let the rules take in what has changed, and open what they say."""
        has_settings = bool(self._settings.by_endpoint)
        rules = self._rules if has_settings or self._had_settings else self._plain_rules
        self._had_settings = has_settings
        for rule in rules:
            opened = rule.begin(now)
            for endpoint in opened.endpoints:
                self._lanes.shut(endpoint, now)
            for lane in opened.lanes:
                self._lanes.rest(lane, now)

    def choose(self, now: float) -> list[Wanted]:
        """Choose lanes and reserve slots for them; again without the lanes that a rule has closed."""
        while True:
            wanted = self._lanes.pick(now, lambda lane, most: self._admit(lane, most, now))
            closed, self._closed = self._closed, {}
            for lane, room in closed.items():
                if room.of_endpoint:
                    self._lanes.shut(lane.endpoint, room.closed_until)
                else:
                    self._lanes.rest(lane, room.closed_until)
            if wanted or not closed:
                return wanted

    def _admit(self, lane: Lane, most: int, now: float) -> int:
        """Reserve slots for a lane: the least that any rule has room for, and that is left of its fair share."""
        rules = self._rules if lane.endpoint in self._settings.by_endpoint else self._plain_rules
        for rule in rules:
            room = rule.room(lane, now)
            most = min(most, room.slots)
            if most <= 0:
                if room.closed_until > now:
                    self._closed[lane] = room
                    return 0
                break
        # Also for none: a refusal is told when slots are given back.
        slots = self._shares.reserve(lane.endpoint, max(0, most))
        if slots:
            for rule in rules:
                rule.reserved(lane, slots)
        return slots
