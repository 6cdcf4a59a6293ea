"""Blocks of code in tutorials and how-tos: each block is run by a test, or has a reason why none runs it."""

import json
import shutil
import subprocess

import pytest

from tests.acceptance.dev import page_scripts
from tests.code_blocks import DOCS, ROOT, blocks_of

STACK = "tests/acceptance/dev/page_scripts.py"
DEBIAN = "tests/production/debian.py"
RECEIVING = "tests/contract/receiver/test_receiving_page.py"
BACKUP = "tests/acceptance/faults/test_backup.py"
PAGES = "tests/unit/deployment/test_pages.py"
INSTALLS = "tests/unit/test_install_blocks.py"
# Each block in its order: the test that runs or compares it, or the reason why no test does.
BLOCKS = {
    "how-to/actors.md": [
        "starts a worker; tests/acceptance/actors starts it by the stack",
        *["tests/acceptance/actors/test_actors_page.py"] * 4,
    ],
    "how-to/actors-elsewhere.md": ["tests/acceptance/actors/test_actors_by_tls.py"] * 3,
    "tutorial/first-job.md": ["starts the stack of the next blocks", STACK, STACK, STACK],
    "tutorial/django.md": [INSTALLS, *[STACK] * 9],
    "tutorial/receiving.md": [INSTALLS, RECEIVING, STACK, "tests/unit/catalog/test_check_spec.py", RECEIVING],
    "how-to/backup.md": [BACKUP] * 6,
    "how-to/bulk.md": [STACK],
    "how-to/callbacks.md": [STACK, "tests/unit/features/callbacks/test_callbacks_page.py"],
    "how-to/canvas.md": ["tests/integration/caller/test_workflows_page.py"] * 7,
    "how-to/celery.md": [
        "an app of Celery, before its move",
        *["tests/acceptance/actors/test_celery_page.py"] * 2,
        STACK,
    ],
    "how-to/console.md": ["tests/integration/cli/test_console_link.py"],
    "how-to/docker.md": [PAGES] * 3,
    "how-to/extend.md": ["tests/integration/test_extend_page.py"] * 12,
    "how-to/extend-actors.md": ["tests/acceptance/actors/test_extend_actors_page.py"] * 2,
    "how-to/kubernetes.md": [PAGES],
    "how-to/notifications.md": [STACK, "tests/unit/features/notifications/test_notifications_page.py"],
    "how-to/operations.md": [STACK],
    "how-to/qstash.md": [STACK],
    "how-to/rotate-keys.md": [STACK, STACK, STACK],
    "how-to/schedule.md": ["tests/integration/caller/test_schedule_page.py"] * 6,
    "how-to/simulate.md": [STACK, STACK],
    "how-to/systemd.md": [DEBIAN] * 5,
    "how-to/tls.md": [DEBIAN],
    "how-to/upgrade.md": [DEBIAN],
    "how-to/workflows.md": ["tests/integration/caller/test_workflows_page.py"] * 6,
    "how-to/test-your-code.md": [INSTALLS, *["tests/acceptance/dev/test_testing_plugin.py"] * 3],
    "how-to/testing.md": ["tests/integration/test_testing_page.py"] * 4,
}


def test_each_block_is_run_or_has_a_reason() -> None:
    pages = [page for part in ("tutorial", "how-to") for page in (DOCS / part).glob("*.md")]
    found = {page.relative_to(DOCS).as_posix(): len(blocks_of(page)) for page in pages if blocks_of(page)}
    assert found == {name: len(entries) for name, entries in BLOCKS.items()}
    for name, entries in BLOCKS.items():
        for test in (entry for entry in entries if entry.startswith("tests/") and " " not in entry):
            assert name.rpartition("/")[2] in (ROOT / test).read_text(), test
    assert {name for name, entries in BLOCKS.items() if STACK in entries} == page_scripts.PAGES.keys()


@pytest.mark.parametrize("name", BLOCKS)
def test_each_block_has_valid_syntax(name: str) -> None:
    bash = shutil.which("bash")
    for language, text in blocks_of(DOCS / name):
        if language == "python":
            compile(text, name, "exec")
        elif language == "json":
            json.loads(text)
        elif language == "sh" and bash:
            subprocess.run([bash, "-n"], input=text, text=True, check=True)
