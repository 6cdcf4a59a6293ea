"""Order in which a test run takes its files."""

from collections.abc import Iterable, Mapping

LONGEST = (
    "tests/acceptance/test_wheel.py",
    "tests/acceptance/test_rolling_upgrade.py",
    "tests/acceptance/actors/test_dramatiq_suite.py",
)
"""Slow files of up to two minutes, first: one that begins late would run on after all others."""
_SLOW = "tests/acceptance/"
_END = 0.85
"""Relative position of the last slow file: quick files end a run, so that no process waits long for another."""


def spread(files: Iterable[str]) -> Mapping[str, int]:
    """Return the position of each file by its path, with the slow files spread evenly.

    Slow files mostly wait and quick files mostly compute, so a mix of both uses the cores best.
    """
    known = list(files)
    slow = sorted((name for name in known if name.startswith(_SLOW)), key=lambda name: name not in LONGEST)
    others = [name for name in known if not name.startswith(_SLOW)]
    shares = {name: _END * number / len(slow) for number, name in enumerate(slow)}
    shares |= {name: number / len(others) for number, name in enumerate(others)}
    return {name: place for place, name in enumerate(sorted(known, key=lambda name: shares[name]))}
