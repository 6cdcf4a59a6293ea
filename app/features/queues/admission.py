"""Admission of pauses: nothing of a paused endpoint is claimed."""

from math import inf

from app.queue.claiming.admission import OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.partition import Partition


class PauseAdmission(AdmissionRule):
    """Closes the partitions of paused endpoints until these are resumed."""

    of_settings = True

    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._closed = set[str]()

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        resumed = {endpoint for endpoint in self._closed if not self._is_paused(endpoint)}
        self._closed -= resumed
        return Opened(resumed)

    def room(self, partition: Partition, now: float) -> Room:  # noqa: ARG002
        if not self._is_paused(partition.endpoint):
            return OPEN
        self._closed.add(partition.endpoint)
        return Room(0, inf, of_endpoint=True)

    def _is_paused(self, endpoint: str) -> bool:
        rules = self._rules.of(endpoint)
        return rules is not None and rules.is_paused
