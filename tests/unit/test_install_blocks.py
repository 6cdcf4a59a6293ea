"""Blocks that install packages, as dry runs: pip builds the metadata of the sources and resolves their requirements."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.code_blocks import DOCS, ROOT, blocks_of

# The installed packages have to do. pip reads the last variable as the value of `build_isolation`.
DRY_RUN = {"PIP_DRY_RUN": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_CONFIG_FILE": os.devnull}
CLIENT, RECEIVER = "task-executor-client", "task-executor-receiver"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of what the metadata needs, because setuptools writes beside the sources; `pip` is that of the tests."""
    folder = tmp_path_factory.mktemp("sources")
    for part in ("client", "receiver"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "pip").write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n')
    (folder / "bin" / "pip").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("page", "installed"),
    [
        ("tutorial/django.md", [CLIENT, RECEIVER]),
        ("tutorial/receiving.md", [RECEIVER, RECEIVER]),
        ("how-to/test-your-code.md", ["task-executor", CLIENT]),
    ],
)
def test_block_installs_the_packages(page: str, installed: list[str], sources: Path) -> None:
    block = next(block for block in blocks_of(DOCS / page) if block.text.startswith("pip install"))
    env = os.environ | DRY_RUN | {"PATH": f"{sources / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", block.text], cwd=sources, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert [name.rpartition("-")[0] for line in lines for name in line] == installed
    assert "does not provide the extra" not in done.stderr
