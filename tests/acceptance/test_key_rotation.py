"""Rotation of the encryption key with processes restarted in the wrong order: no execution fails or is lost."""

import pytest
from sqlalchemy import text

from app.catalog.crypto import generate_key
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.jobs import wait_for_end
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

OLD, NEW = generate_key(), generate_key()


def test_execution_with_an_undecryptable_secret_waits_for_a_worker_with_the_key(
    database: Database, stack: Stack, api: Api, receiver: Receiver
) -> None:
    """The API process encrypts with the new key; the only worker has the old key."""
    stack.web(TE_SECRET_ENCRYPTION_KEY=f"{NEW},{OLD}")
    api.post("/secrets", {"name": "token", "value": "hunter2"})
    old_worker = stack.worker(TE_SECRET_ENCRYPTION_KEY=OLD)
    stack.wait_for_line(old_worker, "secrets that cannot be decrypted (1): token")
    spec = {"url": f"{receiver.base_url}/ok/sealed", "method": "POST", "headers": {"X-Token": "{{secret.token}}"}}
    api.post("/endpoints", {"name": "sealed", "type": "HTTP", "spec": spec})
    body = {"endpoint": "sealed", "trigger": "IMMEDIATE", "idempotency_key": "one", "input": {}}
    execution_id = api.post("/jobs", body)["execution"]["execution_id"]

    def is_released_twice() -> bool:
        query = text("SELECT count(*) AS n FROM execution_events WHERE reason = 'SECRET_UNREADABLE'")
        return bool(database.fetch(query)[0].n >= 2)

    eventually(is_released_twice, what="a second claim by the worker without the key")
    why = f"/executions/{execution_id}/explain"
    eventually(lambda: api.get(why)["reason"] == "SECRET_UNREADABLE", what="the explanation between two tries")
    assert stack.output().count("the secret 'token' cannot be decrypted") == 1
    stack.worker(TE_SECRET_ENCRYPTION_KEY=f"{NEW},{OLD}")
    ended = wait_for_end(api, execution_id)
    assert (ended["status"], ended["attempt_count"]) == ("SUCCESS", 1)
    (sent,) = receiver.wait_for(1, path="/ok/sealed")
    assert sent.headers["X-Token"] == "hunter2"
