"""Delivery: the signed content of a verified request."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Delivery:
    """Request with a valid signature; the signature covers every field.

    Attributes:
        execution_id: Id of the execution, the same on each attempt.
        attempt: Number of the attempt, from 1, only growing. Use it as a fencing token for effects outside your
            database: refuse an attempt after a greater number.
        sent_at: Unix time of the sender in seconds.
        body: Raw bytes of the body.

    Example:
        def handler(delivery, session):
            send_mail(delivery.json()["to"], deduplication_id=delivery.execution_id)
    """

    execution_id: str
    attempt: int
    sent_at: int
    body: bytes

    def json(self) -> Any:
        """Return the parsed body.

        Raises:
            ValueError: The body is not JSON.
        """
        return json.loads(self.body)
