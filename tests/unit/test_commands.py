"""The commands of the program `flask`: each is documented, and says what it does."""

import re
from pathlib import Path

import click

from app.cli.kernel_commands import COMMANDS
from app.features import FEATURES

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "cli.md").read_text()


def test_each_command_is_documented_and_prints_json() -> None:
    found = {name: command for entry in EVERY for name, command in commands(str(entry.name), entry)}
    assert len(found) > 20
    for name, command in found.items():
        group, _, action = name.partition(" ")
        assert any(f"`{group}" in line and action in line for line in DOCUMENT.splitlines()), name
        assert command.help, name
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name


EVERY = [*COMMANDS, *(command for feature in FEATURES for command in feature.commands())]


def commands(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """List a command, or those of a group, by the words that call it."""
    if not isinstance(command, click.Group):
        return [(name, command)]
    return [found for below, each in command.commands.items() for found in commands(f"{name} {below}", each)]


def test_what_documents_call_exists() -> None:
    known = dict(found for entry in EVERY for found in commands(str(entry.name), entry))
    groups = {name.partition(" ")[0] for name in known}
    for document in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]):
        called = re.findall(r"flask --app app ([a-z-]+)(?: ([a-z-]+))?", document.read_text())
        unknown = [words for words in called if words[0] not in groups]
        assert unknown == [], document
        for group, action in called:
            actions = {name.partition(" ")[2] for name in known if name.partition(" ")[0] == group} - {""}
            assert not actions or action in actions | {""}, (document, group, action)


def test_each_option_in_the_document_exists() -> None:
    found = [command for entry in EVERY for _, command in commands(str(entry.name), entry)]
    groups = list(EVERY)
    options = {option for each in [*found, *groups] for parameter in each.params for option in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOCUMENT)) - options == {"--app", "--help"}
