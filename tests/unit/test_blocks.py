"""Blocks of code in tutorials and how-tos: each block is run by a test, or has a reason why none runs it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STACK = "tests/acceptance/dev/test_dev_stack.py"
SPEC = "tests/unit/catalog/test_check_spec.py"
# Each block in its order: the test that runs or compares it, or the reason why no test does.
BLOCKS = {
    "tutorial/first-job.md": ["starts the stack of the next blocks", STACK, STACK, STACK],
    "tutorial/receiving.md": [
        "installs packages",
        "an extract: receiver/examples has whole programs",
        SPEC,
        "an extract: receiver/examples has whole programs",
    ],
    "how-to/callbacks.md": ["needs endpoints of the reader", "tests/unit/features/callbacks/test_callbacks_page.py"],
    "how-to/deployment.md": ["needs a Kubernetes cluster", "needs root and systemd"],
    "how-to/extend.md": ["tests/integration/test_extend_page.py"] * 12,
    "how-to/notifications.md": [
        "needs a channel of the reader",
        "tests/unit/features/notifications/test_notifications_page.py",
    ],
    "how-to/operations.md": [
        "installs packages: tests/acceptance/test_wheel.py does the same from a wheel",
        "changes the routes of an installation",
        "needs CockroachDB in several regions",
        "needs PostgreSQL's programs: tests/acceptance/faults/test_backup.py does the same",
        "needs PostgreSQL's programs: tests/acceptance/faults/test_backup.py does the same",
    ],
    "how-to/schedule.md": ["tests/integration/caller/test_schedule_page.py"] * 6,
    "how-to/testing.md": ["tests/integration/test_testing_page.py"] * 4,
    "how-to/simulate.md": ["needs jobs of the reader"],
}


def code_blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of each fenced block."""
    return re.findall(r"^ *```(\w+)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)


def test_each_block_is_run_or_has_a_reason() -> None:
    pages = [page for part in ("tutorial", "how-to") for page in (ROOT / "docs" / part).glob("*.md")]
    found = {page.relative_to(ROOT / "docs").as_posix(): len(code_blocks(page)) for page in pages if code_blocks(page)}
    assert found == {name: len(entries) for name, entries in BLOCKS.items()}
    for name, entries in BLOCKS.items():
        for test in (entry for entry in entries if entry.startswith("tests/") and " " not in entry):
            assert Path(name).name in (ROOT / test).read_text(), test


@pytest.mark.parametrize("name", BLOCKS)
def test_each_block_has_valid_syntax(name: str) -> None:
    bash = shutil.which("bash")
    for language, text in code_blocks(ROOT / "docs" / name):
        if language == "python":
            compile(text, name, "exec")
        elif language == "json":
            json.loads(text)
        elif language == "sh" and bash:
            subprocess.run([bash, "-n"], input=text, text=True, check=True)
