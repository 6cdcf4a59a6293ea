"""Distributions: their versions, the licences of dependencies, and an audit that fails if it could not check them."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.unit.deployment.deployed import NOT_INSTALLED, canonical, versions

ROOT = Path(__file__).parents[3]
LIST = ROOT / "docs" / "reference" / "licences.md"
# Licences that permit redistribution together with the product under its own licence.
PERMITTED = re.compile(
    r"Apache|BSD|MIT|PSF|Python Software Foundation|GNU (Library or )?Lesser General Public License"
    r"|Mozilla Public License 2|\bAND\b|\bOR\b"
)


def test_every_locked_version_has_a_permitted_licence() -> None:
    rows = re.findall(r"^\| (\S+) +\| (\S+) +\| (.+?) +\|$", LIST.read_text(), re.MULTILINE)
    listed = {canonical(name): version for name, version, _ in rows if name != "Name"}
    locked = versions("requirements.lock")
    assert listed == {name: locked[name] for name in locked if name not in NOT_INSTALLED}, "run make licences"
    licences = {licence for name, _, licence in rows if name != "Name"}
    assert [licence for licence in licences if not PERMITTED.search(licence) or "UNKNOWN" in licence] == []


@pytest.mark.parametrize(
    ("says", "strict_status", "words"),
    [
        ("No known vulnerabilities found", 0, ""),
        ("Found 1 known vulnerability in 1 package", 1, ""),
        ("redis: Dependency not found on PyPI and could not be audited: redis (8.1.0)", 1, "NOTHING was checked"),
        ("requests.exceptions.ConnectionError: refused", 1, "NOTHING was checked"),
    ],
)
def test_audit_that_could_not_check_fails(says: str, strict_status: int, words: str, tmp_path: Path) -> None:
    """Like pip-audit: without --strict it skips packages that the index does not know, and exits with 0."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    audit = tmp_path / "bin" / "pip-audit"
    audit.parent.mkdir()
    strictly = f'case "$*" in *--strict*) exit {strict_status};; esac'
    audit.write_text(f"#!/bin/sh\necho '{says}' >&2\n{strictly}\n")
    audit.chmod(0o755)
    (tmp_path / ".installed").touch()
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["make", f"TOOLS={tmp_path}", "audit"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is (strict_status == 0)
    assert words in done.stderr


@pytest.mark.parametrize(
    ("variable", "configured", "used"),
    [
        ("https://a.example/simple", "https://b.example/simple", "https://a.example/simple"),
        ("", "https://b.example/simple", "https://b.example/simple"),
        ("", "", "https://pypi.org/simple"),
    ],
)
def test_lists_of_dependencies_are_resolved_by_the_index_of_pip(
    variable: str, configured: str, used: str, tmp_path: Path
) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    (tmp_path / "bin").mkdir()
    for name, text in (("uv", 'echo "$@"'), ("pip", f"echo {configured}" if configured else "exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / ".installed").touch()
    env = {"PATH": os.environ["PATH"]} | ({"PIP_INDEX_URL": variable} if variable else {})
    done = subprocess.run(
        ["make", f"TOOLS={tmp_path}", "lock"], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert f"--default-index {used} " in done.stdout


def test_all_distributions_and_the_changelog_have_the_same_version() -> None:
    folders = (ROOT, ROOT / "client", ROOT / "receiver")
    found = {tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"] for folder in folders}
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert found == {newest[1]}
