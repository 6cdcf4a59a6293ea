"""`make bench`: what the system does on this machine, beside its peers in the same run.

Client, database, Redis, workers and receiver share the machine's cores, for all alike.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from benchmarks import cpu
from benchmarks.drain import Drain, rounds
from benchmarks.system import PEERS, running
from benchmarks.table import markdown, median


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("drain", help="deliver a backlog over HTTP")
    command.add_argument("--executions", type=int, default=8000, help="how many each drain delivers")
    command.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn")
    command.add_argument("--only", help="names of those to measure, such as ours,pgqueuer; ours is always there")
    command.add_argument("--against", type=Path, action="append", default=[], help="another working tree of ours")
    options = parser.parse_args()
    names = PEERS if options.only is None else options.only.split(",")
    trees = [tree.resolve() for tree in options.against]
    measure([name for name in names if name != "ours"], trees, options.executions, options.rounds)


def measure(peers: list[str], trees: list[Path], count: int, times: int) -> None:
    """Print each drain, then the medians."""
    results: dict[str, list[Drain]] = defaultdict(list)
    speeds = [cpu.speed()]
    with running(peers, trees) as system:
        for name, drain in rounds(system.contenders, system.arrivals, count, times):
            results[name].append(drain)
            speeds.append(cpu.speed())
            print(
                f"{name:12} {drain.rate:8,.0f}/s steady {drain.steady:8,.0f}/s  CPU ms "
                f"{drain.python_ms:.3f} + {drain.database_ms:.3f}  fill {drain.fill:8,.0f}/s  "
                f"repeats {drain.repeats}  machine {speeds[-1]:.1f}",
                flush=True,
            )
    print(_table(results))
    print(f"machine: a plain loop differed by {cpu.spread(speeds):.0%} between the drains")


def _table(results: dict[str, list[Drain]]) -> str:
    head = ["HTTP drain", "/s", "steady /s", "to ours", "CPU ms Python", "CPU ms PostgreSQL", "fill /s"]
    rows = []
    for name, drains in results.items():
        ratios = [one.steady / own.steady for one, own in zip(drains, results["ours"], strict=True)]
        rows.append(
            [
                name,
                median([drain.rate for drain in drains]),
                median([drain.steady for drain in drains]),
                median(ratios, 2),
                median([drain.python_ms for drain in drains], 3),
                median([drain.database_ms for drain in drains], 3),
                median([drain.fill for drain in drains]),
            ]
        )
    return markdown(head, rows)


if __name__ == "__main__":
    main()
