"""Process with a wrong clock: the time of day is shifted, and nothing else."""

import os
import subprocess
import sys
import time

from app.dev.verify import clock

PROGRAM = """
import datetime, time
from datetime import datetime as imported
now = imported.now(datetime.timezone.utc)
assert type(now) is type(imported(2026, 1, 1)), type(now)
assert isinstance(now, imported) and not isinstance(1, imported)
assert imported.fromisoformat("2026-01-01T00:00:00+00:00").year == 2026
assert (imported(2026, 1, 2) - imported(2026, 1, 1)).days == 1
assert abs(time.time() - now.timestamp()) < 1 and abs(time.time_ns() / 1e9 - time.time()) < 1
print(time.time(), time.monotonic())
"""


def run(seconds: float) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | clock.environment(seconds),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wall, monotonic = done.stdout.split()
    return float(wall), float(monotonic)


def test_time_of_day_is_shifted_and_the_monotonic_clock_is_not() -> None:
    for seconds in (3600.0, -3600.0):
        wall, monotonic = run(seconds)
        assert abs(wall - time.time() - seconds) < 60
        assert abs(monotonic - time.monotonic()) < 60
