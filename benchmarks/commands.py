"""Commands of `python -m benchmarks`: which measurements a run is made of."""

import argparse
from pathlib import Path

from benchmarks.contenders import peer
from benchmarks.measures import create, drain, latency
from benchmarks.report.run import Run
from benchmarks.system import running


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add a subparser for each."""
    commands = parser.add_subparsers(required=True)
    for run, what in ((_all, "drain, latency and create"), (_drain, "deliver a backlog over HTTP")):
        _add(commands, run, what)
    _add(commands, _latency, "from accepted to the receiver; lateness of delayed jobs")
    _add(commands, _create, "jobs through the API")


def _add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", run: object, what: str) -> None:
    name = getattr(run, "__name__", "").lstrip("_")
    command = commands.add_parser(name, help=what)
    command.set_defaults(command=run, name=name)
    command.add_argument("--keep", action="store_true", help="write table and plot to benchmarks/results")
    command.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn")
    command.add_argument("--executions", type=int, default=8000, help="how many each drain delivers")
    command.add_argument("--samples", type=int, default=300, help="how many latencies are taken in a round")
    command.add_argument("--seconds", type=float, default=4, help="how long each load lasts")
    command.add_argument("--only", help="names of those to measure, such as ours,pgqueuer; ours is always there")
    command.add_argument("--against", type=Path, action="append", default=[], help="another working tree of ours")


def _peers(options: argparse.Namespace, *limits: str) -> list[str]:
    names = (*peer.QUEUES, *limits) if options.only is None else options.only.split(",")
    return [name for name in names if name != "ours"]


def _trees(options: argparse.Namespace) -> list[Path]:
    return [tree.resolve() for tree in options.against]


def _drain(options: argparse.Namespace) -> Run:
    run = Run(options.name)
    with running(_peers(options, "aiohttp"), _trees(options)) as system:
        drain.measure(run, system.contenders, system.arrivals, options.executions, options.rounds)
    return run


def _latency(options: argparse.Namespace) -> Run:
    run = Run(options.name)
    with running(_peers(options), _trees(options)) as system:
        latency.measure(run, system.contenders, system.arrivals, options.samples, options.rounds)
    return run


def _create(options: argparse.Namespace) -> Run:
    run = Run(options.name)
    with running((), _trees(options)) as system:
        create.measure(run, system, options.seconds, options.rounds)
    return run


def _all(options: argparse.Namespace) -> Run:
    run = Run(options.name)
    with running(_peers(options, "aiohttp"), _trees(options)) as system:
        drain.measure(run, system.contenders, system.arrivals, options.executions, options.rounds)
        create.measure(run, system, options.seconds, options.rounds)
        queues = [contender for contender in system.contenders if contender.name != "aiohttp"]
        latency.measure(run, queues, system.arrivals, options.samples, options.rounds)
    return run
