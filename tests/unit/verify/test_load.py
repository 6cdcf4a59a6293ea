"""Load: a run that is broken off ends, although nobody answers any more."""

import threading

from app.dev.stack.stack_client import Api
from app.dev.verify.job_load import create_all
from app.dev.verify.ledger import Ledger


def test_jobs_are_not_created_for_a_run_that_was_broken_off() -> None:
    """Each would be sent again and again for as long as the API may take to come back."""
    ledger, stopping = Ledger(), threading.Event()
    bodies = [{"endpoint": "any", "idempotency_key": f"key-{number}"} for number in range(1000)]

    def client() -> Api:
        stopping.set()
        return Api("http://127.0.0.1:1", "key")

    create_all(client, ledger, bodies, stopping)
    assert 0 < ledger.unanswered < len(bodies)
