"""pytest plugin of the client: a pytest of its own runs the tests of the page, and tests of a user."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from task_executor_client.testing import Stack, StackError

from tests.cases import Breaches

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "test-your-code.md"
CASES = Path(__file__).with_name("moved_time")
# The code of this tree comes before an installed one.
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "client")))}


def written(folder: Path) -> set[str]:
    """Write the blocks of the page, each under the name in its first line, and return the names."""
    found = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for name, block in found:
        (folder / name).write_text(block)
    return {name for name, _ in found}


def run(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), "-q", *options]
    environment = ENVIRONMENT | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_tests_of_the_page_and_of_a_user_pass_on_one_stack_of_each_process(tmp_path: Path) -> None:
    assert written(tmp_path) == {"conftest.py", "test_django.py", "test_fastapi.py"}
    shutil.copy(CASES / "project.py", tmp_path)
    shutil.copy(CASES / "cases.py", tmp_path / "test_cases.py")
    logs = tmp_path / "logs"  # which the command of the stack names
    logs.mkdir()
    done = run(tmp_path, "-p", "project", "-n", "2", "--dist", "loadfile", TMPDIR=str(logs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
    stacks = [set(path.read_text().split()) for path in tmp_path.glob("stacks-*")]
    assert [len(used) for used in stacks] == [1, 1]
    assert stacks[0] != stacks[1]
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not any(str(logs) in command for command in commands)


def test_stack_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "test_start.py").write_text("def test_start(te): pass\n")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no service here >&2\nexit 1\n")
    python.chmod(0o755)
    done = run(tmp_path, "test_start.py", TASK_EXECUTOR_PYTHON=str(python))
    assert done.returncode == 1
    assert "StackError: the stack for tests has ended" in done.stdout
    assert "no service here" in done.stdout


def test_python_that_cannot_run_is_named_with_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Breaches() as breaches:
        for missing in ("bin/python", str(tmp_path), "no-such-python"):
            monkeypatch.setenv("TASK_EXECUTOR_PYTHON", missing)
            with (
                breaches.case(missing),
                pytest.raises(StackError, match=r"cannot run .*; set TASK_EXECUTOR_PYTHON to bin/python"),
            ):
                Stack()
