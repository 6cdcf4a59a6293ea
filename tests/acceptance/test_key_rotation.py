"""Rotation of the encryption key with the processes restarted in the wrong order: nothing fails, nothing is lost."""

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


def test_what_a_forgotten_worker_cannot_decrypt_waits_for_another(
    database: Database, stack: Stack, api: Api, receiver: Receiver
) -> None:
    """Web has the new key first, the one worker has only the old key."""
    stack.web(TE_SECRET_ENCRYPTION_KEY=f"{NEW},{OLD}")
    api.post("/secrets", {"name": "token", "value": "hunter2"})
    forgotten = stack.worker(TE_SECRET_ENCRYPTION_KEY=OLD)
    stack.wait_for_line(forgotten, "1 secrets cannot be decrypted (token)")
    spec = {"url": f"{receiver.base_url}/ok/sealed", "method": "POST", "headers": {"X-Token": "{{secret.token}}"}}
    api.post("/endpoints", {"name": "sealed", "type": "HTTP", "spec": spec})
    body = {"endpoint": "sealed", "trigger": "IMMEDIATE", "idempotency_key": "one", "input": {}}
    execution_id = api.post("/jobs", body)["execution"]["execution_id"]

    def handed_back_twice() -> bool:
        question = text("SELECT count(*) AS n FROM execution_events WHERE reason = 'HANDED_BACK'")
        return bool(database.fetch(question)[0].n >= 2)

    eventually(handed_back_twice, what="a second claim by the worker without the key")
    assert stack.output().count("the secret 'token' cannot be decrypted") == 1
    stack.worker(TE_SECRET_ENCRYPTION_KEY=f"{NEW},{OLD}")
    ended = wait_for_end(api, execution_id)
    assert (ended["status"], ended["attempt_count"]) == ("SUCCESS", 1)
    (sent,) = receiver.wait_for(1, path="/ok/sealed")
    assert sent.headers["X-Token"] == "hunter2"
