"""flake.nix and flake.lock name the same inputs; Nix accepts both, where it is installed."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.deployment.deployed import ROOT

FLAKE, LOCK = ROOT / "flake.nix", ROOT / "flake.lock"


def test_inputs_of_the_flake_are_locked_at_their_commits() -> None:
    inputs = dict(re.findall(r'inputs\.(\w+)\.url = "github:\w+/\w+/([0-9a-f]{40})"', FLAKE.read_text()))
    nodes = json.loads(LOCK.read_text())["nodes"]
    assert inputs
    assert {name: nodes[name]["locked"]["rev"] for name in nodes["root"]["inputs"]} == inputs


def test_nix_needs_no_change_of_the_lock(tmp_path: Path) -> None:
    nix = shutil.which("nix")
    if nix is None:
        pytest.skip("needs nix")
    for file in (FLAKE, LOCK):
        shutil.copy(file, tmp_path)
    flags = ["--extra-experimental-features", "nix-command flakes", "--offline"]
    command = [nix, *flags, "flake", "metadata", "--no-update-lock-file", f"path:{tmp_path}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
