"""Commands of the program `flask`: each command is documented and has a help text."""

import re
from pathlib import Path

import click

from app.cli.application_group import ApplicationGroup
from app.features import FEATURES

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "reference" / "cli.md").read_text()
CELLS = re.findall(r"^\|((?:[^|\\\n]|\\.)*)", DOCUMENT, re.MULTILINE)  # first cells of the tables


def test_each_command_is_documented_and_prints_json() -> None:
    found = {name: command for entry in EVERY for name, command in commands(str(entry.name), entry)}
    assert len(found) > 20
    for name, command in found.items():
        group, _, action = name.partition(" ")
        assert any(f"`{group}" in cell and re.search(rf"\b{action}\b", cell) for cell in CELLS), name
        assert command.help, name
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name


EVERY = ApplicationGroup(FEATURES).all_commands()


def commands(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """List a command, or all commands of a group, with the words that call them."""
    if not isinstance(command, click.Group):
        return [(name, command)]
    return [found for below, each in command.commands.items() for found in commands(f"{name} {below}", each)]


def test_command_is_found_by_each_listed_name() -> None:
    group = ApplicationGroup(FEATURES)
    context = click.Context(group)
    names = group.list_commands(context)
    found = [group.get_command(context, name) for name in names]
    assert [command and command.name for command in found] == names == sorted(names)


def test_every_command_named_in_a_document_exists() -> None:
    known = dict(found for entry in EVERY for found in commands(str(entry.name), entry))
    groups = {name.partition(" ")[0] for name in known}
    for document in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        called = re.findall(r"flask --app app ([a-z-]+)(?: ([a-z-]+))?", document.read_text())
        unknown = [words for words in called if words[0] not in groups]
        assert unknown == [], document
        for group, action in called:
            actions = {name.partition(" ")[2] for name in known if name.partition(" ")[0] == group} - {""}
            assert not actions or action in actions | {""}, (document, group, action)


def test_every_option_named_in_the_document_exists() -> None:
    found = [command for entry in EVERY for _, command in commands(str(entry.name), entry)]
    groups = list(EVERY)
    options = {option for each in [*found, *groups] for parameter in each.params for option in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOCUMENT)) - options == {"--app", "--help"}
