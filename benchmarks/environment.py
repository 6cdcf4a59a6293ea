"""Virtual environment of the peers, built on first use and kept."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_WITHOUT_DEPENDENCIES = ("dramatiq-pg==0.12.0",)
"""Installed as they are: dramatiq-pg asks for Dramatiq 1, and runs with Dramatiq 2."""


def home() -> Path:
    """Return the directory that is kept between runs: BENCH_HOME, or .dev/bench of this working tree."""
    return Path(os.environ.get("BENCH_HOME") or ROOT / ".dev" / "bench")


def yardstick() -> Path:
    """Return the working tree of an earlier version of the product that is measured too, if it exists."""
    return home() / "yardstick"


def peers_python() -> Path:
    """Return the interpreter of the peers' environment; it exists after build_peers()."""
    all_lines = _REQUIREMENTS.read_bytes() + "\n".join(_WITHOUT_DEPENDENCIES).encode()
    wanted = hashlib.sha256(all_lines).hexdigest()[:12]
    return home() / f"venv-{wanted}" / "bin" / "python"


def has_peers() -> bool:
    """Return whether the peers' environment is complete."""
    return peers_python().with_name(".complete").exists()


def build_peers() -> None:
    """Install the peers; takes half a minute and needs a package index."""
    if has_peers():
        return
    venv = peers_python().parent.parent
    print(f"installing the peers into {venv}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    pip = [str(peers_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(_REQUIREMENTS)], check=True)
    subprocess.run([*pip, "--no-deps", *_WITHOUT_DEPENDENCIES], check=True)
    peers_python().with_name(".complete").touch()
