"""Load of the verifier: a stopped run ends although the API never answers."""

import threading

from app.dev.verify.load_client import LoadClient


def test_stopped_run_creates_no_more_jobs() -> None:
    """Without the stop, each request would be repeated until its timeout."""
    client = LoadClient("http://127.0.0.1:1", "key")
    bodies = [{"endpoint": "any", "idempotency_key": f"key-{number}"} for number in range(1000)]
    threading.Timer(0.1, client.stopping.set).start()
    client.create_all(bodies)
    assert 0 < client.conduct().unanswered < len(bodies)
