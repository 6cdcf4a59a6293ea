"""`dramatiq --watch`: changed code runs without another start."""

import os
import sys
from pathlib import Path

import pytest

from app.kernel.db import Database
from tests.acceptance.actors.conftest import User, sending, wait_for_actors
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

NAME = "watched_tasks"
MODULE = """
import os
from pathlib import Path

import dramatiq
from task_executor_dramatiq import TaskExecutorBroker

broker = TaskExecutorBroker(url=os.environ["BROKER_URL"])
dramatiq.set_broker(broker)


@dramatiq.actor
def speak():
    with Path(os.environ["EFFECTS"]).open("a") as effects:
        effects.write("{word}\\n")
"""
READY = "Worker process is ready for action"
DETECTED = "Detected changes"


# watchdog 7 matches the whole path, and Dramatiq's own pattern is `**.py`.
def test_changed_code_runs_without_another_start(
    user: User, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / f"{NAME}.py"
    source.write_text(MODULE.format(word="before"))
    user.stack.web()
    user.worker()
    # Dramatiq starts itself again by the name `python`, which has to be found in the environment of the first start.
    path = os.pathsep.join([str(Path(sys.executable).parent), user.env["PATH"]])
    process = user.process("--watch", ".", "--watch-include", "**/*.py", module=NAME, PATH=path)
    wait_for_actors(database, "speak")
    monkeypatch.syspath_prepend(str(tmp_path))
    with sending(user, monkeypatch, NAME) as tasks:
        tasks.speak.send()
        eventually(lambda: user.lines() == ["before"])

        def is_reloaded() -> bool:
            log = process.tail(500)
            if DETECTED not in log:  # Dramatiq begins to watch at any time after the start of its processes
                source.write_text(MODULE.format(word="afterwards"))
            return log.count(READY) >= 2

        eventually(is_reloaded, what="the reload")
        tasks.speak.send()
        eventually(lambda: user.lines() == ["before", "afterwards"])
