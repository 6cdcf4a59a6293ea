"""Commands of the kernel; commands of features are in the features' folders."""

from collections.abc import Iterable, Sequence

import click

from app.cli import (
    api_keys_cli,
    console_cli,
    db_cli,
    endpoints_cli,
    executions_cli,
    grants_cli,
    jobs_cli,
    openapi_cli,
    prune_cli,
    secrets_cli,
    verify_cli,
)
from app.cli.commands import ApplicationGroup

COMMANDS: Sequence[click.Command] = (
    api_keys_cli.group,
    console_cli.group,
    db_cli.group,
    endpoints_cli.group,
    executions_cli.group,
    grants_cli.group,
    jobs_cli.group,
    prune_cli.command,
    secrets_cli.group,
    verify_cli.command,
)


def group_with(commands: Iterable[click.Command]) -> ApplicationGroup:
    """Return the group of the commands of the kernel and of features."""
    group = ApplicationGroup()
    # The commands of flask-smorest follow no convention of ours, such as --json.
    for command in (*COMMANDS, openapi_cli.group, *commands):
        group.add_command(command)
    return group
