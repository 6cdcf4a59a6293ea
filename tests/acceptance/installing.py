"""Installing: wheels of the product and its client, and environments with a part of it, without an index.

What an extra asks for is what pip would install of it: found by what the wheel and its libraries declare, in the
versions of constraints.txt. Its files are linked from the environment of the tests: that takes a second and no network.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCES = ["actors", "app", "brokers", "schema", "pyproject.toml", "README.md", "LICENSE"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# Nothing of the checkout may be found by the Python of the wheel.
ALONE = {"PYTHONPATH": ""}


def run(*command: str | Path) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=os.environ | ALONE)
    assert done.returncode == 0, done.stdout + done.stderr


def built(source: Path, folder: Path) -> Path:
    """Build the wheel of a copy of the sources: setuptools leaves files beside them."""
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(home: Path, wheel: Path | None = None) -> Path:
    """Make an environment with nothing but the wheel, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    if wheel is not None:
        run(*PIP, "--python", python, "install", "--no-deps", wheel)
    return python


def libraries_of(python: Path) -> Path:
    """Return the folder of an environment in which its libraries are."""
    (found,) = python.parents[1].glob("lib/python*/site-packages")
    return found


def with_part(home: Path, installed: Path, part: str = "") -> Path:
    """Make an environment with the wheel that is installed in another one, and an extra; returns its Python."""
    python = environment(home)
    (wheel,) = (found for found in distributions(path=[str(libraries_of(installed))]))
    for found in needed(wheel, part):
        _link(found, libraries_of(python))
    return python


def needed(wheel: Distribution, extra: str) -> list[Distribution]:
    """Return the wheel and all that it wants with an extra; fails for what is there in another version."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, str]] = set()
    name = wheel.metadata["name"]
    waiting = [Requirement(f"{name}[{extra}]")]
    while waiting:
        requirement = waiting.pop()
        one = found[requirement.name] = wheel if requirement.name == name else distribution(requirement.name)
        assert requirement.specifier.contains(one.version), f"{requirement} is asked for, {one.version} is there"
        for of in requirement.extras or {""}:
            if (requirement.name, of) not in asked:
                asked.add((requirement.name, of))
                waiting += _wanted(one, of)
    return list(found.values())


def _wanted(one: Distribution, extra: str) -> Iterator[Requirement]:
    for line in one.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _link(one: Distribution, libraries: Path) -> None:
    for file in one.files or ():
        if ".." not in file.parts:  # scripts, whose first line names another Python
            target = libraries / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.hardlink_to(Path(str(one.locate_file(file))))
