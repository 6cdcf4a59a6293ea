"""Commands of `python -m benchmarks`, each a list of measurements."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from benchmarks import backlog, environment, machine
from benchmarks.contenders import peer, variants
from benchmarks.contenders.actor_contenders import PEERS, actor_contenders
from benchmarks.measures import (
    actors,
    create,
    drain,
    flight,
    latency,
    lists,
    pages,
    prune,
    search,
    sizes,
    soak,
    ticks,
    transports,
    workflows,
)
from benchmarks.measures.flow.parts import parts as flow
from benchmarks.measures.flow.sizes import SIZES
from benchmarks.report import markdown, published
from benchmarks.report.run import RESULTS, Run
from benchmarks.system import System, running

Options = argparse.Namespace


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add a subparser for each command."""
    commands = parser.add_subparsers(required=True)
    for name, (run, help_text) in _COMMANDS.items():
        command = commands.add_parser(name, help=help_text)
        command.set_defaults(command=run, name=name, system=None)
        command.add_argument("--keep", action="store_true", help="write table and plot to --results")
        command.add_argument("--results", type=Path, default=RESULTS, help="benchmarks/results by default")
        rounds = 1 if name == "flow" else 3  # flow takes turns within a round already
        command.add_argument("--rounds", type=int, default=rounds, help="rounds of each measurement")
        command.add_argument("--executions", type=int, default=8000, help="deliveries of each drain")
        command.add_argument("--samples", type=int, default=300, help="latencies measured in a round")
        command.add_argument("--seconds", type=float, default=4, help="length of each load")
        command.add_argument("--minutes", type=float, default=20, help="length of the soak")
        command.add_argument("--in-flight", type=int, default=10_000, help="deliveries that wait at once")
        command.add_argument("--held", type=float, default=5, help="seconds until each of these deliveries is answered")
        command.add_argument("--size", choices=SIZES, default="full", help="size of the measurements of flow")
        command.add_argument("--steps", type=int, default=machine.STEPS, help="of the loop that measures the speed")
        command.add_argument("--parts", help="parts of all, history or flow, such as lists,prune")
        command.add_argument("--commands", default="", help="commands of together and publish, such as all,soak")
        command.add_argument("--filters", type=int, default=2, help="maximum number of combined filters of a read")
        command.add_argument("--finished", type=int, default=5_000_000, help="finished executions in the history")
        command.add_argument("--future", type=int, default=1_000_000, help="delayed executions in the history")
        command.add_argument("--due", type=int, default=100_000, help="due jobs whose ticks schedulers materialise")
        command.add_argument("--only", help="contenders to measure, such as ours,pgqueuer; ours is always included")
        command.add_argument(
            "--against",
            type=Path,
            action="append",
            help=f"another working tree of the product; {environment.yardstick()} by default, if it exists",
        )


def _running(options: Options, *peers: str) -> AbstractContextManager[System]:
    if options.system is not None:
        return nullcontext(options.system)
    names = _names(options, peers)
    kept = environment.yardstick()
    given = options.against if options.against is not None else [kept] if kept.exists() else []
    trees = [tree.resolve() for tree in given]
    return running([name for name in names if name != "ours"], trees)


def _names(options: Options, peers: Sequence[str]) -> Sequence[str]:
    return peers if options.only is None else options.only.split(",")


def _drain(run: Run, options: Options) -> None:
    with _running(options, *peer.QUEUES, "aiohttp") as system:
        drain.measure(run, system.contenders, system.arrivals, options.executions, options.rounds)


def _workflows(run: Run, options: Options) -> None:
    names = [name for name in _names(options, ("celery", "dbos")) if name != "ours"]
    with _running(options, *names) as system:
        contenders = system.workflow_contenders(names)
        workflows.measure(run, contenders, system, count=options.executions, rounds=options.rounds)


def _actors(run: Run, options: Options) -> None:
    names = [name for name in _names(options, PEERS) if name in PEERS]
    with _running(options, *PEERS) as system:
        contenders, records = actor_contenders(system, names)
        actors.measure(
            run, contenders, records, count=options.executions, samples=options.samples, rounds=options.rounds
        )


def _search(run: Run, options: Options) -> None:
    with _running(options, *peer.QUEUES) as system:
        peers = [contender for contender in system.contenders if isinstance(contender, peer.Peer)]
        search.measure(run, peers, system.arrivals, options.executions, options.rounds)


def _transports(run: Run, options: Options) -> None:
    with _running(options) as system:
        transports.measure(run, system, options.executions, options.rounds)


def _latency(run: Run, options: Options) -> None:
    with _running(options, *peer.QUEUES) as system:
        section = latency.measure(run, system.contenders, system.arrivals, options.samples, options.rounds)
        for make in variants.latency_variants(system, options.future):
            with make() as ours:
                latency.add(run, section, [ours], system.arrivals, samples=options.samples, rounds=options.rounds)


def _create(run: Run, options: Options) -> None:
    with _running(options) as system:
        create.measure(run, system, options.seconds, options.rounds)


def _flight(run: Run, options: Options) -> None:
    with _running(options) as system:
        flight.measure(run, system, options.in_flight, options.held, options.rounds)


def _history(run: Run, options: Options) -> None:
    with _running(options) as small, variants.long_history(small, options.finished, options.future) as old:
        system = replace(small, contenders=[*small.contenders, old])
        contenders, arrivals, rounds = system.contenders, system.arrivals, options.rounds
        parts: dict[str, Callable[[], object]] = {
            "drain": lambda: drain.measure(run, contenders, arrivals, options.executions, rounds),
            "create": lambda: create.measure(run, system, options.seconds, rounds),
            "latency": lambda: latency.measure(run, contenders, arrivals, options.samples, rounds),
            "lists": lambda: lists.measure(run, system.all_ours, options.filters, rounds),
            "prune": lambda: prune.measure(run, old, arrivals, options.executions, rounds),
        }
        _take(run, parts, options)


def _pages(run: Run, options: Options) -> None:
    with _running(options) as system, variants.long_history(system, options.finished, options.future) as old:
        pages.measure(run, old.stack.database_url, options.rounds)


def _flow(run: Run, options: Options) -> None:
    with _running(options, "pgqueuer") as system:
        _take(run, flow(run, system, options), options)


def _take(run: Run, parts: dict[str, Callable[[], object]], options: Options) -> None:
    """Measure the requested parts, and print each at once, because all parts together may take half an hour."""
    for name in parts if options.parts is None else options.parts.split(","):
        shown, began = len(run.sections), time.monotonic()
        parts[name]()
        print("", *(markdown.show(section) for section in run.sections[shown:]), sep="\n")
        print(f"  {name} took {time.monotonic() - began:.0f} s", flush=True)


def _soak(run: Run, options: Options) -> None:
    with _running(options) as system:
        soak.measure(run, system, options.minutes, options.executions)


def _ticks(run: Run, options: Options) -> None:
    with _running(options) as system:
        ticks.measure(run, system.ours, system.arrivals.url, options.due, options.rounds)


def _sizes(run: Run, options: Options) -> None:
    with _running(options) as system:
        sizes.measure(run, system, options.seconds)


def _all(run: Run, options: Options) -> None:
    with _running(options, *peer.QUEUES, "aiohttp") as system:
        contenders, arrivals, rounds = system.contenders, system.arrivals, options.rounds
        queues = [contender for contender in contenders if contender.name != "aiohttp"]
        parts: dict[str, Callable[[], object]] = {
            "drain": lambda: drain.measure(run, contenders, arrivals, options.executions, rounds),
            "transports": lambda: transports.measure(run, system, options.executions, rounds),
            "create": lambda: create.measure(run, system, options.seconds, rounds),
            "latency": lambda: latency.measure(run, queues, arrivals, options.samples, rounds),
            "flight": lambda: flight.measure(run, system, options.in_flight, options.held, 1),
        }
        _take(run, parts, options)


def _over(system: System, name: str, run: Run, options: Options, **own: object) -> None:
    """Run a command over a system that others have used: jobs that they left would be delivered during this one."""
    backlog.clear(system.ours.stack.database_url)
    command, _help = _COMMANDS[name]
    command(run, Options(**vars(options) | own | {"system": system}))


def _together(run: Run, options: Options) -> None:
    """Run several commands over one system, because its start takes longer than the smallest of them."""
    with _running(options) as system:
        for name in options.commands.split(","):
            parts = [part for part in _PARTS_TOGETHER.get(name, ()) if part in (options.parts or part).split(",")]
            _over(system, name, run, options, parts=",".join(parts) or None)


def _publish(_run: Run, options: Options) -> None:
    """Measure for the documents over one system: each command has its report, and its table in a document."""
    runs = {name: Run(name) for name in (options.commands or "all,sizes,flow,soak").split(",")}
    if options.rounds < _PUBLISHED_ROUNDS:
        sys.exit(f"published figures need at least {_PUBLISHED_ROUNDS} rounds: --rounds {_PUBLISHED_ROUNDS}")
    if dirty := [run.commit for run in runs.values() if run.commit.endswith("-dirty")]:
        sys.exit(f"commit the changes of this working tree first: the tables name the commit ({dirty[0]})")
    with _running(options, *peer.QUEUES, "aiohttp") as system:
        for name, run in runs.items():
            _over(system, name, run, options, **_PUBLISHED.get(name, {}))
            run.write(options.results)
    for path in published.write(environment.ROOT, {name: run for name, run in runs.items() if run.is_steady()}):
        print(f"wrote {path}")
    if unsteady := [name for name, run in runs.items() if not run.is_steady()]:
        sys.exit(f"the machine was too unsteady for the tables of the documents: {', '.join(unsteady)}")


_PUBLISHED_ROUNDS = 3
_PUBLISHED = {"flow": {"rounds": 1}, "sizes": {"seconds": 30.0}}
"""Options of published runs: the start of the workers is a small part of 30 s; flow takes turns within a round."""

_PARTS_TOGETHER = {
    "all": ("drain", "transports", "create", "latency", "flight"),
    "history": ("lists", "prune"),
    "flow": ("isolation", "limits", "keys", "overload", "catch-up"),
}
"""Parts that differ most from the parts of other commands."""

_COMMANDS: dict[str, tuple[Callable[[Run, Options], None], str]] = {
    "all": (_all, "drain, transports, create, latency and flight"),
    "drain": (_drain, "deliver a backlog over HTTP, beside the peers"),
    "search": (_search, "drain with several settings of each peer, to find the fastest"),
    "transports": (_transports, "deliver a backlog over HTTP, Redis Streams and Kafka"),
    "create": (_create, "create jobs through the API, beside bare Flask"),
    "latency": (_latency, "time from acceptance to the receiver, and lateness; peers and harder cases of ours"),
    "history": (_history, "drain, create, latency, lists and prune over a long history, beside a small database"),
    "pages": (_pages, "pages of the console over a long history: time, statements, rows and blocks"),
    "flow": (_flow, "isolation, limits, priorities and overload, beside pgqueuer"),
    "workflows": (_workflows, "fan-out, fan-in, chains and a killed worker, beside Celery and DBOS"),
    "actors": (_actors, "drain and latency of Dramatiq messages, beside dramatiq-pg, dramatiq-postgres and Redis"),
    "flight": (_flight, "many deliveries that wait for their answers at once"),
    "sizes": (_sizes, "cores and memory of each process at 10, 100 and 1,000 jobs a second"),
    "ticks": (_ticks, "ticks of due jobs a second with one, two and four schedulers"),
    "soak": (_soak, "minutes of steady load, to find growth"),
    "publish": (_publish, "all, sizes, flow and soak, and the tables of the documents from them"),
    "together": (_together, "several commands over one system, to check that they work"),
}
