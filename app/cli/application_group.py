"""Commands of the kernel and commands of the features, as one group."""

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import click
from flask.cli import AppGroup

from app.feature import Feature
from app.kernel.suggestions import did_you_mean

# Where each command of the kernel is; a feature returns its commands itself.
KERNEL: Mapping[str, str] = MappingProxyType(
    {
        "api-keys": "app.cli.api_keys_cli:group",
        "console": "app.cli.console_cli:group",
        "db": "app.cli.db_cli:group",
        "endpoints": "app.cli.endpoints_cli:group",
        "executions": "app.cli.executions_cli:group",
        "grants": "app.cli.grants_cli:group",
        "jobs": "app.cli.jobs_cli:group",
        "prune": "app.cli.prune_cli:command",
        "secrets": "app.cli.secrets_cli:group",
        "verify": "app.cli.verify_cli:command",
    }
)
# Commands of flask-smorest, which follow no convention of ours, such as --json.
_OF_OTHERS = {"openapi": "app.cli.openapi_cli:group"}


class ApplicationGroup(AppGroup):
    """Commands of the application, which Flask looks up after its own commands.

    A command is imported when it is looked up: an import of all would take a third of the CPU time of each command.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        """Take the features; their commands are imported later."""
        super().__init__()
        self._features = features
        self._places = {**KERNEL, **_OF_OTHERS}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raises UsageError with the nearest name, which Flask does not suggest."""
        if cmd_name in self._places:
            return _imported(self._places[cmd_name])
        found = next((each for each in self._of_features(cmd_name) if each.name == cmd_name), None)
        if found is None and isinstance(ctx.command, click.Group) and not ctx.resilient_parsing:
            near = did_you_mean(cmd_name, ctx.command.list_commands(ctx))
            ctx.fail(f"no such command {cmd_name!r}.{near or ' The list of commands is in --help.'}")
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the names of all commands, in the order of the alphabet."""
        return sorted([*self._places, *(str(each.name) for each in self._of_features())])

    def all_commands(self) -> list[click.Command]:
        """Return the commands of the kernel and of the features."""
        return [*map(_imported, KERNEL.values()), *self._of_features()]

    def _of_features(self, name: str = "") -> Iterator[click.Command]:
        """Return the commands of all features; first those of the feature that is called like the command."""
        likely = name.replace("-", "_")
        for feature in sorted(self._features, key=lambda each: not each.name.startswith(likely)):
            yield from feature.commands()


def _imported(place: str) -> click.Command:
    command: click.Command = pkgutil.resolve_name(place)
    return command
