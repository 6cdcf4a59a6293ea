"""Wheels of product, client and receiver, and environments with one extra of a wheel, made without a package index.

An extra gets the packages that pip would install: declared by the wheel and its libraries, in the versions of
constraints.txt. Their files are hard links to the environment of the tests, which takes a second and no network.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCES = ["actors", "app", "brokers", "schema", "pyproject.toml", "README.md", "LICENSE"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# The calls that pip makes of a build backend, in one process.
BUILD = """
import os, sys, tarfile
from setuptools import build_meta
folder = sys.argv[1]
name = build_meta.build_sdist(folder)
with tarfile.open(os.path.join(folder, name)) as sdist:
    sdist.extractall(folder, filter="data")
os.chdir(os.path.join(folder, name.removesuffix(".tar.gz")))
build_meta.build_wheel(folder)
"""
# The Python of the wheel must not import from the checkout.
ISOLATED = {"PYTHONPATH": ""}


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command; fail the test unless the command succeeds."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=os.environ | ISOLATED, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def built(source: Path, folder: Path) -> Path:
    """Build the sdist from a copy of the sources, and the wheel from the sdist, as `make dist` does.

    setuptools leaves files beside the sources.
    """
    folder.mkdir(exist_ok=True)
    run(sys.executable, "-c", BUILD, folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(home: Path) -> Path:
    """Make an environment without packages, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", home)
    return home / "bin" / "python"


def installed_by_pip(home: Path, wheel: Path) -> Path:
    """Make an environment with only the wheel, and return its Python."""
    python = environment(home)
    run(*PIP, "--python", python, "install", "--no-deps", wheel)
    return python


def unpacked(home: Path, wheel: Path) -> Path:
    """Make an environment with only the files of the wheel, as an installation without bytecode leaves them.

    A start of pip takes longer than all else that is done with a small wheel; pip installs the product's.
    """
    python = environment(home)
    with ZipFile(wheel) as archive:
        archive.extractall(libraries_of(python))
    return python


def libraries_of(python: Path) -> Path:
    """Return the site-packages folder of an environment."""
    (found,) = python.parents[1].glob("lib/python*/site-packages")
    return found


def environment_with_extra(home: Path, installed: Path, extra: str = "") -> Path:
    """Make an environment with the wheel of another environment and one extra, and return its Python."""
    python = environment(home)
    (wheel,) = (found for found in distributions(path=[str(libraries_of(installed))]))
    for package in dependencies(wheel, extra):
        _link(package, libraries_of(python))
    return python


def dependencies(wheel: Distribution, extra: str) -> list[Distribution]:
    """Return the wheel and the dependencies of an extra; fail if an installed version does not match."""
    found: dict[str, Distribution] = {}
    resolved: set[tuple[str, str]] = set()
    name = wheel.metadata["name"]
    waiting = [Requirement(f"{name}[{extra}]")]
    while waiting:
        requirement = waiting.pop()
        package = found[requirement.name] = wheel if requirement.name == name else distribution(requirement.name)
        assert requirement.specifier.contains(package.version), f"{requirement}: version {package.version} is installed"
        for each_extra in requirement.extras or {""}:
            if (requirement.name, each_extra) not in resolved:
                resolved.add((requirement.name, each_extra))
                waiting += _requirements(package, each_extra)
    return list(found.values())


def _requirements(package: Distribution, extra: str) -> Iterator[Requirement]:
    for line in package.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _link(package: Distribution, libraries: Path) -> None:
    for file in package.files or ():
        if ".." not in file.parts:  # a script is skipped: its first line names the Python of the tests
            target = libraries / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.hardlink_to(Path(str(package.locate_file(file))))
