"""Parts of the measurement of flow, by name."""

from argparse import Namespace
from collections.abc import Callable

from benchmarks.contenders import crowd
from benchmarks.contenders.crowd import Crowd, OurCrowd
from benchmarks.measures.flow import backlogs, isolation, keys, limits, overload, priorities
from benchmarks.measures.flow.isolation import Load
from benchmarks.measures.flow.sizes import SIZES
from benchmarks.report.run import Run
from benchmarks.system import System


def parts(run: Run, system: System, options: Namespace) -> dict[str, Callable[[], object]]:
    """Return what measures each."""
    size, rounds, arrivals, ours = SIZES[options.size], options.rounds, system.arrivals, OurCrowd(system.ours)
    drains = {"seconds": size.seconds, "turns": size.turns, "rounds": rounds}

    def crowds(*limits: int) -> list[Crowd]:  # new ones, as pgqueuer's would keep the entrypoints of another part
        return crowd.of(system.contenders, limits or (0,))

    def load(rate: float, seconds: float) -> Load:
        return Load(rate, seconds, size.pause)

    def all_ours() -> list[OurCrowd]:
        return [one for one in crowds() if isinstance(one, OurCrowd)]

    return {
        "isolation": lambda: isolation.measure(
            run, crowds(0, 10), arrivals, load(size.load, size.load_seconds), due=size.hang, rounds=rounds
        ),
        "limits": lambda: limits.measure(
            run, crowds(), arrivals, seconds=size.seconds, limited=size.limited_seconds, rounds=rounds
        ),
        "keys": lambda: keys.measure(
            run, ours, arrivals, load(size.load, size.keys / size.load), keys=size.keys, flood=size.flood, rounds=rounds
        ),
        "priorities": lambda: priorities.measure(run, crowds(), arrivals, future=size.retries, **drains),
        "overload": lambda: overload.measure(run, system, size.seconds, rounds),
        "backlog": lambda: backlogs.measure(run, crowds(), arrivals, due=size.backlog, **drains),
        "catch-up": lambda: backlogs.catch_up(
            run, all_ours(), arrivals, load(size.busy, size.seconds), jobs=size.ticking, rounds=rounds
        ),
    }
