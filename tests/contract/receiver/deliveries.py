"""Deliveries to an inbox, and checks of its answers."""

import json
import time
from typing import Any

from task_executor_receiver import Answer, Delivery


def new_delivery(execution: str, attempt: int = 1) -> Delivery:
    return Delivery(execution, attempt, int(time.time()), b"{}")


def is_replayed(answer: Answer) -> bool:
    return "Idempotency-Replayed" in answer.headers


def reason(answer: Answer) -> Any:
    assert answer.status == 409
    assert int(answer.headers["Retry-After"]) > 0
    return json.loads(answer.body)["error"]["reason"]


def fail(*_arguments: Any) -> None:
    raise LookupError("the handler's own error")
