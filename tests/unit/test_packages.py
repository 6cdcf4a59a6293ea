"""Packages that an import must not load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("app", {"flask"}),
        ("app.queue.claiming.claim", {"flask"}),
        ("app.scheduler.__main__", {"dramatiq", "redis"}),
        ("app.web.application", {"dramatiq", "redis"}),
        ("brokers.broker", {"flask", "werkzeug", "redis"}),
        ("schema.migrate", {"app"}),
    ],
)
def test_importing_one_side_does_not_pull_in_the_other(module: str, absent: set[str]) -> None:
    program = f"import {module}, sys; print(*{absent!r}.intersection(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
