"""What was done to several executions in one transaction."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kernel.errors import TaskExecutorError


@dataclass(frozen=True, slots=True)
class Treated:
    """The queues in which something is due now, how often, and by its id why anything was left as it is."""

    queues: Counter[str] = field(default_factory=Counter)
    refused: Mapping[str, TaskExecutorError] = field(default_factory=dict)
