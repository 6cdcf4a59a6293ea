"""Limits of a worker whose clock is moved; a further module of its command line, so no other stack has them.

A worker knows by the machine's time until when a limiter is closed. Each move raises the revision of the endpoint
rules, which makes a worker read them again.
"""

from collections.abc import Sequence

from app.features import FEATURES
from app.features.limits import Limits
from app.features.limits.admission import LimitAdmission
from app.queue.claiming.admission import AdmissionRule
from app.queue.claiming.endpoint_rules import FlowRules


class MovedLimitAdmission(LimitAdmission):
    """Limits that forget all states with each new revision of the rules."""

    def _follow_rules(self) -> list[str]:
        """Return all limiters that closed partitions, and not those of changed endpoints only."""
        super()._follow_rules()
        self._known.clear()
        return list(self._closed)


class MovedLimits(Limits):
    """Feature with these limits."""

    def admission(self, rules: FlowRules, capacity: int) -> Sequence[AdmissionRule]:
        return [MovedLimitAdmission(rules, capacity)]


# Consumers read the list when they start, after the command line has imported this module.
FEATURES[:] = [MovedLimits() if isinstance(feature, Limits) else feature for feature in FEATURES]
