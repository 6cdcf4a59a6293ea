"""The actor kit's wheel, in an environment with Dramatiq and nothing of the service."""

import os
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path

from tests.acceptance.installing import ISOLATED, ROOT, built, environment_with_extra, libraries_of, unpacked

USE = """
import dramatiq
from importlib.util import find_spec
from task_executor_dramatiq import TaskExecutorBroker
from task_executor_dramatiq.celery_style import CeleryActor

broker = TaskExecutorBroker(url="http://127.0.0.1:1", worker="unix:/nowhere")
dramatiq.set_broker(broker)
add = dramatiq.actor(lambda a, b: a + b, actor_name="add", max_retries=3, store_results=True)
dramatiq.actor(lambda: None, actor_name="mail", actor_class=CeleryActor)
print(add(1, 2), [name for name in ("app", "brokers", "schema") if find_spec(name)])
try:
    broker.consume("default")
except dramatiq.errors.BrokerConnectionError as error:
    print(error)
"""


def test_actor_kit_runs_with_dramatiq_alone(tmp_path: Path) -> None:
    source = shutil.copytree(ROOT / "actor_kit", tmp_path / "kit", ignore=shutil.ignore_patterns("__pycache__"))
    installed = unpacked(tmp_path / "installed", built(source, tmp_path / "wheel"))
    python = environment_with_extra(tmp_path / "environment", installed)
    names = {found.metadata["name"].lower() for found in distributions(path=[str(libraries_of(python))])}
    assert names == {"task-executor-dramatiq", "dramatiq"}
    command, isolated = [python, "-c", USE], os.environ | ISOLATED
    done = subprocess.run(command, cwd=tmp_path, env=isolated, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("3 []\nno worker listens in /nowhere: start a worker of Task Executor on this host")
