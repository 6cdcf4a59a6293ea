"""Delivery: what a verified request is sure to say."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request whose signature holds; every field is signed, so nothing here can be forged.

    `execution_id` is the same on each attempt. `attempt` begins at 1 and only grows: with an effect outside your
    database it is a fencing token, to refuse what comes after a greater one. `sent_at` is the sender's Unix time in
    seconds.
    """

    execution_id: str
    attempt: int
    sent_at: int
    body: bytes

    def json(self) -> Any:
        """Read the body as JSON; raises ValueError when it is none."""
        return json.loads(self.body)
