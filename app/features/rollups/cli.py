"""`flask stats`: rebuild the history of deliveries."""

import time
from datetime import datetime, timedelta

import click

from app.cli.commands import ServiceGroup, ready_database
from app.cli.console import json_option, print_result, progress
from app.cli.options import InstantOrAge
from app.features.rollups import rollup_slots
from app.kernel.formats import numbered, rfc3339
from app.web.services import services

REST = 1.0  # after each hour, in multiples of the time that it took


stats_command = ServiceGroup(
    "stats", help="Change the statistics of deliveries over time, which `status --last 24h` shows."
)


@stats_command.command("rebuild")
@click.option("--since", type=InstantOrAge(), required=True, help="age (30d, 12h) or time of the first hour")
@click.option("--full-speed", is_flag=True, help="without rests, which leave half of the time to deliveries")
@json_option
def rebuild(since: datetime, full_speed: bool, as_json: bool) -> None:
    """Count the deliveries of past hours again, from the executions and attempts that are kept.

    Fills gaps: the time before the first scheduler of this release, and days without a scheduler. Hours before the
    retention of executions stay as they are. May be interrupted and repeated.
    """
    settings, done = services().settings, 0
    with ready_database() as database, progress("hours counted") as advance:
        kept_since = rollup_slots.marks(database).now - timedelta(days=settings.retention_days)
        since, began = max(since, kept_since), time.monotonic()
        for _hour in rollup_slots.rebuild(database, since, settings.rollup_endpoints):
            done += 1
            advance(1)
            if not full_speed:
                time.sleep(REST * (time.monotonic() - began))
            began = time.monotonic()
    line = f"counted the deliveries of {numbered(done, 'hour')} again, since {rfc3339(since)}"
    print_result({"hours": done, "since": rfc3339(since)}, line, as_json=as_json)
