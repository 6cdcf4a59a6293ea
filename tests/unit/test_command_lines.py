"""Command lines that documents and deployment files show: each parses, and each of its targets exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.code_blocks import ROOT, blocks_of
from tests.command_lines import check, simple_commands

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")])
INLINE = re.compile(r"`((?:\S*/)?(?:flask --app app|te-cli|dramatiq|gunicorn|python -m|make|pip install) [^`…]+)`")
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
COMPOSED = [ROOT / "docker-compose.yml", ROOT / "deploy/compose/postgres.yml"]


def shown_in(page: Path) -> Iterator[list[str]]:
    """Yield the commands of the shell blocks of a page, and of its text."""
    for language, text in blocks_of(page):
        if language == "sh":
            yield from simple_commands(text)
    without_blocks = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    yield from (shlex.split(line) for line in INLINE.findall(without_blocks))


def deployed() -> Iterator[list[str]]:
    for line in (ROOT / "Procfile").read_text().splitlines():
        yield shlex.split(line.partition(":")[2])
    for unit in UNITS:
        for line in re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE):
            yield shlex.split(line.replace("$WORKER_OPTIONS", "--processes 2 --threads 8"))
    for file in COMPOSED:
        for service in yaml.safe_load(file.read_text())["services"].values():
            if "build" in service:
                yield [str(word) for word in service["command"]]
                yield [str(word) for word in service.get("healthcheck", {}).get("test", [])]


def test_each_shown_command_line_parses() -> None:
    parsed = {page.name: sum(check(words) for words in shown_in(page)) for page in PAGES}
    assert sum(parsed.values()) > 100
    assert parsed["docker.md"] >= 3


def test_each_deployed_command_line_parses() -> None:
    assert sum(check(words) for words in deployed()) > 15


@pytest.mark.parametrize(
    "line",
    [
        "flask --app app executions list --stat FAILED",
        "te-cli db upgrad",
        "dramatiq actors --process 2 --thread 8 --quick",
        "python -m app.schedulers",
        "make chek",
        "pip install './client[asynch]'",
        "systemctl start task-executor-webs",
    ],
)
def test_wrong_command_line_is_found(line: str) -> None:
    with pytest.raises((Exception, SystemExit)):
        check(shlex.split(line))
