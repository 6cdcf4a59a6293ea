"""The order in which the files of a run take their turns."""

from collections.abc import Iterable, Mapping

_SLOW = "tests/acceptance/"
_END = 0.85
"""Where among the others the last slow file begins: short ones end a run, so that no process waits long for another."""


def spread(files: Iterable[str]) -> Mapping[str, int]:
    """Return the place of each file by its path: the slow ones are spread among the others.

    They mostly wait, and the others mostly compute: several processes together use the cores best with some of each.
    """
    known = list(files)
    slow = [name for name in known if name.startswith(_SLOW)]
    others = [name for name in known if not name.startswith(_SLOW)]
    shares = {name: _END * number / len(slow) for number, name in enumerate(slow)}
    shares |= {name: number / len(others) for number, name in enumerate(others)}
    return {name: place for place, name in enumerate(sorted(known, key=lambda name: shares[name]))}
