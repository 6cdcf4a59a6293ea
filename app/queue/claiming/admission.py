"""Admission: the port of the rules that decide how many executions of a partition may be claimed now.

Before a claim, one loop (`brokers.claimer`) asks each rule for its room and takes the minimum: pause of the
endpoint, limits, breaker and connections of the target, and last the fair share of the endpoint.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from app.kernel.db import Database
from app.queue.claiming.claim import ClaimAnswer
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota

UNBOUNDED = 1_000_000


class Room(NamedTuple):
    """Number of executions of a partition that a rule admits now.

    Attributes:
        slots: Number of executions; 0 for none.
        closed_until: Instant on `time.monotonic()` at which to ask again, if there are no slots. Infinite if the rule
            opens the partition itself (`AdmissionRule.begin`); past if the next claim may ask.
        of_endpoint: Whether all partitions of the endpoint are closed, if there are no slots.

    Example:
        Room(3)  # up to three executions
        Room(0, now + 5.0)  # this partition is closed for five seconds
        Room(0, inf, of_endpoint=True)  # the endpoint is closed until `begin` returns it
    """

    slots: int
    closed_until: float = -inf
    of_endpoint: bool = False


OPEN = Room(UNBOUNDED)


class Opened(NamedTuple):
    """Endpoints and partitions that a rule had closed and opens again.

    Attributes:
        endpoints: Names of endpoints that were closed by `of_endpoint`.
        partitions: Partitions that were closed alone.
    """

    endpoints: Collection[str] = ()
    partitions: Collection[Partition] = ()


NOTHING_OPENED = Opened()


class AdmissionRule:
    """One rule for one queue; belongs to the consumer thread of the queue. `now` is `time.monotonic()` in seconds.

    A claim calls `begin` once, then `room` for each candidate partition, and `reserved` for each chosen partition. Only
    `claim` and `answered` do I/O.

    Attributes:
        of_settings: True if the rule is asked only about endpoints with rules of their own (`FlowRules`), so that it
            costs other endpoints nothing.

    Example:
        class PausedEndpoints(AdmissionRule):
            of_settings = True

            def __init__(self, rules: FlowRules) -> None:
                self._rules = rules

            def room(self, partition: Partition, now: float) -> Room:
                rules = self._rules.of(partition.endpoint)
                is_paused = rules is not None and rules.is_paused
                return Room(0, now + 1.0, of_endpoint=True) if is_paused else OPEN
    """

    of_settings = False

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Begin a claim: apply the changes since the last claim.

        Args:
            now: Instant of the claim.

        Returns:
            Endpoints and partitions that open before the `closed_until` of their last Room.
        """
        return NOTHING_OPENED

    def room(self, partition: Partition, now: float) -> Room:  # noqa: ARG002
        """Return the room for a partition, in addition to the slots that this claim has reserved.

        Args:
            partition: Candidate with due executions.
            now: Instant of the claim.

        Returns:
            Number of executions that the rule admits; OPEN for any number.
        """
        return OPEN

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count slots that the claim reserves for a partition; the claim may find fewer executions.

        Args:
            partition: Partition that all rules admit.
            slots: Number of executions, at least 1.
        """

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Take the executions that have ended in this process; called by any thread.

        Args:
            ended: Endpoint and limit key of each execution.
        """

    def claims(self, partition: Partition) -> bool:  # noqa: ARG002
        """Return whether the rule claims from a partition by its own statement, `claim`.

        Args:
            partition: Partition that all rules admit. The first rule that returns True claims from it.
        """
        return False

    def claim(self, database: Database, wanted: Sequence[PartitionQuota], request: ClaimRequest) -> ClaimAnswer:
        """Claim from the rule's own partitions.

        Args:
            database: Database of the service.
            wanted: Partitions for which `claims` is true, with their reserved slots.
            request: Common part of the claim.

        Returns:
            The claimed executions, and the rows found in each partition.

        Raises:
            UnavailableError: The database gives no answer. It may have claimed nevertheless.
        """
        raise NotImplementedError

    def answered(self, database: Database, wanted: Sequence[PartitionQuota], answer: ClaimAnswer, now: float) -> None:
        """Process the answer to the rule's own claim.

        Args:
            database: Database of the service.
            wanted: Partitions of the claim.
            answer: Answer of the claim.
            now: Instant after the answer.

        Raises:
            UnavailableError: The database gives no answer; the claims are kept.
        """
        raise NotImplementedError
