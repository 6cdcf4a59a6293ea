"""Command lines of documents and deployment files, parsed by the parsers of their programs without running them."""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click
from dramatiq.cli import make_argument_parser
from gunicorn.config import Config
from packaging.requirements import Requirement

from app.cli.application_group import ApplicationGroup
from app.features import FEATURES

ROOT = Path(__file__).parents[1]
FLASK = {str(command.name): command for command in ApplicationGroup(FEATURES).all_commands()}
OF_OTHERS = {"openapi", "quiet-hours"}  # commands of flask-smorest, and of the example in docs/how-to/extend.md
EXAMPLE = "service."  # modules of that example
_HEREDOC = re.compile(r"(<<'?(\w+)'?.*?\n).*?^\2$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


def simple_commands(script: str) -> Iterator[list[str]]:
    """Split a shell script into its simple commands; commands in `$(…)` count too, and quoted text is one word."""
    text = _COMMENT.sub("", _HEREDOC.sub(r"\1", script.replace("\\\n", " ")))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for token in lexer:
        if set(token) <= set("();<>|&\n"):
            yield words
            words = []
        else:
            words.append(token)
    yield words


def check(words: Sequence[str]) -> bool:
    """Parse from the first known program on; return whether there is one. A fault raises, or exits."""
    for number, word in enumerate(() if words[:1] == ["install"] else words):  # its words are files
        parse = _PROGRAMS.get(word.rpartition("/")[2])
        if parse is not None:
            parse([*words[number + 1 :], *(["ID"] if words[0] == "xargs" else [])])
            return True
    return False


def _flask(words: Sequence[str]) -> None:
    assert words[0] == "--app", words
    if words[2] not in OF_OTHERS:
        _command(words[2:])


def _command(words: Sequence[str]) -> None:
    command, rest = FLASK[words[0]], list(words[1:])
    context = command.make_context(words[0], list(rest))
    while isinstance(command, click.Group) and rest:
        name = rest.pop(0)
        command = command.commands[name]
        context = command.make_context(name, list(rest), parent=context)


def _python(words: Sequence[str]) -> None:
    if words[:1] == ["-m"] and not words[1].startswith(EXAMPLE):
        assert importlib.util.find_spec(words[1]), words


def _make(words: Sequence[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [word for word in words if "=" not in word and not word.startswith("bench-")]
    assert set(named) <= set(targets), words


def _pip(words: Sequence[str]) -> None:
    if words[:1] == ["install"]:
        for before, word in pairwise(words):
            if not word.startswith("-") and before not in {"-c", "-r"}:
                _requirement(word)


def _requirement(place: str) -> None:
    """Check that a folder or one of the distributions has the extras of a requirement."""
    folder, _, named = place.rstrip("]").partition("[")
    own = {"task-executor": ".", "task-executor-client": "client", "task-executor-receiver": "receiver"}
    project = ROOT / own.get(folder, folder) / "pyproject.toml"
    if folder.startswith(".") or folder in own:
        extras = tomllib.loads(project.read_text())["project"].get("optional-dependencies", {})
        assert {extra.strip() for extra in named.split(",") if extra} <= set(extras), place
    else:
        Requirement(place)


def _systemctl(words: Sequence[str]) -> None:
    units = {path.name.removesuffix(".service") for path in (ROOT / "deploy/systemd").iterdir()}
    named = {word for word in words if word.startswith("task-executor")}
    assert named <= units, words


def _gunicorn(words: Sequence[str]) -> None:
    Config().parser().parse_args(list(words))


def _dramatiq(words: Sequence[str]) -> None:
    make_argument_parser().parse_args(list(words))


_PROGRAMS: dict[str, Callable[[Sequence[str]], None]] = {
    "flask": _flask,
    "te-cli": _command,
    "dramatiq": _dramatiq,
    "gunicorn": _gunicorn,
    "python": _python,
    "make": _make,
    "pip": _pip,
    "systemctl": _systemctl,
}
