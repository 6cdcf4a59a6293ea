"""Examples of the receiver and its adapters: started as documented, with deliveries sent as by a worker."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from app.queue.executions.execution_model import DeliveryError
from tests.contract.dispatch.dispatching import identity
from tests.contract.dispatch.http.deliveries import fail, send
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBob3VzZQ=="
SIGNING = {"secret": "of tomorrow", "previous_secret": SECRET}


@pytest.fixture(scope="module", params=["flask", "fastapi", "django"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a running example."""
    if not os.environ.get("CI"):
        pytest.importorskip(request.param)
    folder, port = tmp_path_factory.mktemp(request.param), free_port()
    env = os.environ | {"PYTHONPATH": str(ROOT / "receiver"), "PORT": str(port), "TE_WEBHOOK_SECRET": f"new {SECRET}"}
    program = ROOT / "receiver" / "examples" / f"{request.param}_app.py"
    child = Child(request.param, [sys.executable, str(program)], log=folder / "log", env=env, cwd=folder)
    child.start()
    base = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        assert child.is_running, child.tail()
        try:
            return requests.get(f"{base}/shipments", timeout=5).ok
        except requests.ConnectionError:
            return False

    eventually(is_up, what=f"{request.param}'s example")
    yield base
    child.kill()


def test_delivery_has_its_effect_once_and_a_forged_delivery_has_none(base: str) -> None:
    url = f"{base}/deliveries"
    body = {"order_id": "ö-1"}
    for attempt in (1, 2):
        answered = send(url, identity("exec_1", attempt), body_template=body, signing=SIGNING)
        assert (answered["status_code"], json.loads(answered["body"])) == (200, {"shipped": "ö-1"})
    with pytest.raises(DeliveryError) as refused:
        send(url, identity("exec_2"), body_template={}, signing=SIGNING)
    assert (refused.value.permanent, refused.value.extra["status_code"]) == (True, 410)
    unsigned = fail(url, body_template=body)
    forged = fail(url, body_template=body, signing={"secret": "guessed"})
    for error, reason in ((unsigned, "missing_header"), (forged, "signature")):
        assert error.extra["status_code"] == 401
        assert json.loads(error.extra["body"])["error"]["reason"] == reason
    assert requests.get(f"{base}/shipments", timeout=5).json() == ["ö-1"]


def test_too_long_body_or_another_method_is_refused(base: str) -> None:
    url = f"{base}/deliveries"
    assert requests.post(url, data=b"x" * (4 * 1024 * 1024 + 1), timeout=30).status_code == 413
    assert requests.get(url, timeout=5).status_code == 405
    # Django has a lower bound of its own, and is the only framework that names its bound.
    longer = requests.post(url, data=b"x" * 3_000_000, timeout=30)
    assert (longer.status_code, "2621440 bytes" in longer.text) in {(401, False), (413, True)}
