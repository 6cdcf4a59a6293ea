"""flake.nix, which is not evaluated here: it parses where Nix is, and pins what it takes."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FLAKE = Path(__file__).parents[3] / "flake.nix"


def test_it_pins_what_it_takes() -> None:
    inputs = re.findall(r'inputs\.(\w+)\.url = "(.+)"', FLAKE.read_text())
    assert [name for name, url in inputs if not re.search(r"/[0-9a-f]{40}$", url)] == []
    assert inputs
    assert "--require-hashes" in FLAKE.read_text()


def test_nix_can_parse_it() -> None:
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("needs nix-instantiate")
    done = subprocess.run([nix, "--parse", str(FLAKE)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
