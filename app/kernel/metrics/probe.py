"""`python -m app.kernel.metrics.probe ADDRESS`: exits with 0 if the metrics endpoint there answers.

For container probes without an HTTP client. `--worked-within SECONDS` also checks the chores of a scheduler.
"""

import argparse
import re
import sys
import time
from http.client import HTTPConnection, HTTPException

from app.kernel.metrics.series import CHORE_AT, PREFIX

# Chores that each job depends on; they run about once a second.
CHORES = ("materialize", "promote")
_PATIENCE_SECONDS = 5.0


def main(words: list[str] | None = None) -> int:
    """Probe once; return the exit status and print a failure to stderr."""
    parser = argparse.ArgumentParser(prog="python -m app.kernel.metrics.probe", description="Probe a process.")
    parser.add_argument("address", help="HOST:PORT of its metrics endpoint")
    parser.add_argument(
        *("--worked-within",),
        type=float,
        metavar="SECONDS",
        help=f"for a scheduler: fail unless {' and '.join(CHORES)} succeeded within this time",
    )
    asked = parser.parse_args(words)
    try:
        text = _read(asked.address)
    except (OSError, HTTPException) as error:
        return _unwell(f"could not read metrics from {asked.address}: {error}")
    for chore in CHORES if asked.worked_within is not None else ():
        ended = _last_success(text, chore)
        if ended is None:
            return _unwell(f"{chore} has not succeeded yet")
        if time.time() - ended > asked.worked_within:
            return _unwell(f"{chore} has not succeeded for {time.time() - ended:.0f} s")
    return 0


def _read(address: str) -> str:
    connection = HTTPConnection(address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"status {answer.status}")
        return answer.read().decode()
    finally:
        connection.close()


def _last_success(text: str, chore: str) -> float | None:
    line = re.search(rf'^{PREFIX}{CHORE_AT.name}{{chore="{chore}"}} (\S+)$', text, re.MULTILINE)
    return float(line[1]) if line else None


def _unwell(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
