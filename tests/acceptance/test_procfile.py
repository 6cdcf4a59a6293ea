"""The production way: migrate, make a key, `honcho start`."""

import os
import signal
import sys

import psutil
import pytest

from app.dev.process.ports import free_port
from app.dev.receiver import Receiver
from tests.acceptance.client import Client
from tests.acceptance.fleet import BIN, Fleet, wait_until_ready

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_honcho_runs_everything_and_one_signal_stops_it(
    empty_database_url: str, fleet: Fleet, receiver: Receiver, number: signal.Signals
) -> None:
    fresh = {"TE_DATABASE_URL": empty_database_url}
    migrate = fleet.start("migrate", [str(BIN / "flask"), "--app", "app", "db", "upgrade"], **fresh)
    assert migrate.wait(60) == 0, migrate.tail()
    keys = [str(BIN / "flask"), "--app", "app", "api-keys", "create", "ops", "--scopes", "admin,jobs:write"]
    created = fleet.start("key", keys, **fresh)
    assert created.wait(60) == 0, created.tail()
    key = created.tail(1).strip()

    address = f"127.0.0.1:{free_port()}"
    honcho = fleet.start("honcho", [sys.executable, str(BIN / "honcho"), "start"], TE_LISTEN_ADDR=address, **fresh)
    wait_until_ready(f"http://{address}", honcho)
    client = Client(f"http://{address}", key)
    path = f"/ok/honcho-{number.name}"
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    client.create("/endpoints", {"name": "target", "type": "HTTP", "spec": spec})
    client.create("/jobs", {"endpoint": "target", "trigger": "IMMEDIATE", "idempotency_key": "k", "input": {}})
    receiver.wait_for(1, path=path)

    family = psutil.Process(honcho.pid).children(recursive=True)
    assert len(family) >= 5, "web, worker and scheduler with their children"
    os.kill(honcho.pid, number)
    assert honcho.wait(60) is not None, "one signal must end it"
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert "SIGKILL" not in honcho.log.read_text(), "honcho kills what has not stopped in time"
