"""flake.nix, not evaluated here: its inputs are pinned, and Nix can parse it where Nix is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FLAKE = Path(__file__).parents[3] / "flake.nix"


def test_inputs_of_the_flake_are_pinned() -> None:
    inputs = re.findall(r'inputs\.(\w+)\.url = "(.+)"', FLAKE.read_text())
    assert [name for name, url in inputs if not re.search(r"/[0-9a-f]{40}$", url)] == []
    assert inputs
    assert "--require-hashes" in FLAKE.read_text()


def test_nix_can_parse_the_flake() -> None:
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("needs nix-instantiate")
    done = subprocess.run([nix, "--parse", str(FLAKE)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
