"""The commands of the program `flask`: each is documented, and says what it does."""

from importlib.metadata import entry_points
from pathlib import Path

import click

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_each_command_is_documented_and_prints_json() -> None:
    found = {name: command for entry in ENTRIES for name, command in commands(entry.name, entry.load())}
    assert len(found) > 20
    for name, command in found.items():
        group, _, action = name.partition(" ")
        assert any(f"`{group}" in line and action in line for line in DOCUMENT.splitlines()), name
        assert command.help, name
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name


ENTRIES = [entry for entry in entry_points(group="flask.commands") if entry.value.startswith("app.cli.")]


def commands(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """List a command, or those of a group, by the words that call it."""
    if not isinstance(command, click.Group):
        return [(name, command)]
    return [found for below, each in command.commands.items() for found in commands(f"{name} {below}", each)]
