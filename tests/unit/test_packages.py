"""Packages that an import must not load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("app", "flask"),
        ("app.queue.claiming.claim", "flask"),
        ("app.scheduler", "dramatiq"),
        ("app.web.application", "dramatiq"),
        ("brokers.broker", "flask"),
        ("brokers.broker", "werkzeug"),
        ("schema.migrate", "app"),
    ],
)
def test_importing_one_side_does_not_pull_in_the_other(module: str, absent: str) -> None:
    program = f"import {module}, sys; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
