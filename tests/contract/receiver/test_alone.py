"""Package of the receiver, installed alone: it verifies a delivery with the standard library only."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.signing import signed

ROOT = Path(__file__).parents[3]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--target"]
PROGRAM = """
import json, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import task_executor_receiver, task_executor_receiver.sql
given = json.load(sys.stdin)
delivery = task_executor_receiver.Verifier(given["secret"]).verify(given["headers"].items(), given["body"].encode())
parts = sorted(part.name for part in pkgutil.walk_packages(task_executor_receiver.__path__))
print(json.dumps([delivery.execution_id, delivery.attempt, delivery.json(), parts]))
"""


def test_package_installed_alone_verifies_a_delivery(tmp_path: Path) -> None:
    # Build a copy, because setuptools leaves files beside the sources.
    source = shutil.copytree(ROOT / "receiver", tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    built = subprocess.run([*PIP, tmp_path / "installed", source], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert {path.name.split("-")[0] for path in (tmp_path / "installed").iterdir()} == {"task_executor_receiver"}
    assert [*(tmp_path / "installed").glob("*.dist-info/licenses/LICENSE")], "the package contains its licence"

    secret, body = "whsec_c2VjcmV0IG9mIHRoZSBob3VzZQ==", '{"a":"ü"}'
    headers = signed({"secret": secret}, "exec_1", int(time.time()), body.encode(), 3) | {
        "X-Task-Executor-Attempt": "3"
    }
    # -I and -S: isolated, without site-packages.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, tmp_path / "installed"],
        input=json.dumps({"secret": secret, "headers": headers, "body": body}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    execution_id, attempt, read, parts = json.loads(done.stdout)
    assert (execution_id, attempt, read) == ("exec_1", 3, {"a": "ü"})
    assert {"django", "fastapi", "flask", "redis", "sqlalchemy"} <= set(parts)
