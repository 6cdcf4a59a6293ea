"""What the commands of redrives and of bulk operations have in common: list, show, pause, resume and stop."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import click
from marshmallow import Schema, ValidationError

from app.cli.command_session import confirm, ready_database, yes_option
from app.cli.commands import Group
from app.cli.console import json_option, print_json, show_fields, show_line, show_table
from app.cli.options import Value, gather, limit_option, tell_more
from app.cli.progress_bar import progress
from app.kernel.db import Database
from app.kernel.formats import marshmallow_faults, rfc3339
from app.queue.bulk.walker import MOST_RATE
from app.queue.bulk.walks import Walk, Walks
from app.web.http.request_fields import Instant
from schema.states import WalkStatus

W = TypeVar("W", bound=Walk)
LOOK_SECONDS = 0.5

rate_option = click.option("--rate", type=click.IntRange(1, MOST_RATE), help="how many in a second, at most")
dry_run_option = click.option("--dry-run", is_flag=True, help="count what there is and show the first; change nothing")
wait_option = click.option("--wait", is_flag=True, help="wait until it is over, or paused")
INSTANT = Value("time", Instant())


@dataclass(frozen=True, slots=True)
class Shown(Generic[W]):
    """How walks of a kind are shown: `shape` has the fields of the API, `about` says in a few words what one does."""

    walks: Walks[W]
    shape: Callable[[W], Mapping[str, Any]]
    about: Callable[[W], str]

    def tell(self, database: Database, walk: W, *, wait: bool, as_json: bool) -> None:
        """Print a walk, with `wait` once it is over or paused."""
        found = self._over(database, walk) if wait else walk
        if as_json:
            return print_json(self.shape(found))
        show_fields(self.shape(found))
        return None

    def row(self, walk: W) -> tuple[object, ...]:
        """Return the cells of a walk."""
        done, key = getattr(walk, self.walks.done), getattr(walk, self.walks.key)
        return (key, walk.status, walk.created_at, self.about(walk), done, walk.refused, walk.rate, walk.actor)

    def _over(self, database: Database, walk: W) -> W:
        key, before = getattr(walk, self.walks.key), getattr(walk, self.walks.done) + walk.refused
        with progress(f"{self.walks.noun} under way") as advance:
            while walk.status is WalkStatus.RUNNING:
                time.sleep(LOOK_SECONDS)
                walk = self.walks.get(database, key)
                seen = getattr(walk, self.walks.done) + walk.refused
                advance(seen - before)
                before = seen
        return walk


def read_body(schema: Schema, filters: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """Return what the API would read, with the filters that are given as `wanted`; raises click's UsageError."""
    wanted = {name: _written(value) for name, value in filters.items() if value is not None}
    try:
        body: dict[str, Any] = schema.load(
            {"wanted": wanted} | {name: value for name, value in values.items() if value is not None}
        )
    except ValidationError as error:
        faults = marshmallow_faults(error.messages)
        raise click.UsageError("; ".join(f"{'.'.join(path)}: {message}" for path, message in faults)) from None
    return body


def _written(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value


def add_commands(group: Group, shown: Shown[W]) -> None:
    """Add to a group what all walks have."""
    _add_readers(group, shown)
    walks = shown.walks
    changes = (
        ("pause", WalkStatus.PAUSED, f"Let a {walks.noun} wait where it is."),
        ("resume", WalkStatus.RUNNING, f"Let a paused {walks.noun} go on where it is."),
        ("stop", WalkStatus.STOPPED, f"End a {walks.noun} where it is, for good; what it came to stays changed."),
    )
    for verb, status, help_ in changes:
        group.command(verb, help=f"{help_}\n\nExits with 3 when there is none, with 4 when it is over.")(
            _change(shown, verb, status)
        )


def _add_readers(group: Group, shown: Shown[W]) -> None:
    walks = shown.walks

    @group.command("list", help=f"List each {walks.noun}, newest first.")
    @limit_option
    @json_option
    def list_(limit: int, as_json: bool) -> None:
        with ready_database() as database:
            found, is_more = gather(lambda wanted: walks.page(database, wanted), limit)
        if as_json:
            return print_json({"items": [shown.shape(each) for each in found], "more": is_more})
        header = (walks.noun.upper(), "STATUS", "CREATED", "WHAT", walks.done.upper(), "REFUSED", "RATE", "BY")
        show_table(header, map(shown.row, found), right=[walks.done.upper(), "REFUSED", "RATE"])
        tell_more(is_more)
        return None

    @group.command("show", help=f"Show a {walks.noun} and how far it came. Exits with 3 when there is none.")
    @click.argument(walks.key)
    @wait_option
    @json_option
    def show(wait: bool, as_json: bool, **key: str) -> None:
        with ready_database() as database:
            shown.tell(database, walks.get(database, key[walks.key]), wait=wait, as_json=as_json)


def _change(shown: Shown[W], verb: str, status: WalkStatus) -> Callable[..., None]:
    walks = shown.walks

    def change(as_json: bool, yes: bool = True, **key: str) -> None:
        walk_id = key[walks.key]
        with ready_database() as database:
            about = shown.about(walks.get(database, walk_id))
            confirm(f"{verb.capitalize()} the {walks.noun} {walk_id} ({about}) for good?", yes=yes)
            changed = walks.change(database, walk_id, status)
        if as_json:
            return print_json(shown.shape(changed))
        show_line(f"{walk_id} is {changed.status}: {getattr(changed, walks.done)} {walks.done}")
        return None

    decorated = click.argument(walks.key)(json_option(change))
    return yes_option(decorated) if status is WalkStatus.STOPPED else decorated
