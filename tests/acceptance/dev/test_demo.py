"""The demo, run without make."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.acceptance


def test_demo_delivers_every_trigger_by_every_transport() -> None:
    """The test takes up to a minute, because a cron job fires at the full minute."""
    done = subprocess.run(
        [sys.executable, "-m", "app.dev", "demo"],
        env=os.environ | {"DEMO_EXIT": "1"},
        text=True,
        capture_output=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  job_")]
    assert {(transport, trigger) for _job, transport, trigger, *_rest in rows} == {
        (transport, trigger)
        for transport in ("HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION")
        for trigger in ("IMMEDIATE", "DELAYED", "CRON")
    }
    assert {row[3] for row in rows} == {"SUCCESS"}
    assert [row[4] for row in rows].count("2") == 1  # one receiver fails once
    assert all(int(row[5]) >= 0 for row in rows)
    assert "sk-demo" not in done.stdout
    assert "export TE=http" in done.stdout
