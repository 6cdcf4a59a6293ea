"""Parts of the flow measurements, by name."""

from argparse import Namespace
from collections.abc import Callable

from benchmarks.contenders.flow_contenders import FlowContender, OurFlowContender, flow_contenders
from benchmarks.measures.flow import backlogs, isolation, keys, limits, overload, priorities
from benchmarks.measures.flow.isolation import Load
from benchmarks.measures.flow.sizes import SIZES
from benchmarks.report.run import Run
from benchmarks.system import System


def parts(run: Run, system: System, options: Namespace) -> dict[str, Callable[[], object]]:
    """Return a function for each part."""
    size, rounds, arrivals, ours = SIZES[options.size], options.rounds, system.arrivals, OurFlowContender(system.ours)
    drains = {"seconds": size.seconds, "turns": size.turns, "rounds": rounds}

    def contenders(*limits: int) -> list[FlowContender]:
        # New contenders for each part: pgqueuer's would keep the entrypoints of earlier parts.
        return flow_contenders(system.contenders, limits or (0,))

    def load(rate: float, seconds: float) -> Load:
        return Load(rate, seconds, size.pause)

    def all_ours() -> list[OurFlowContender]:
        return [contender for contender in contenders() if isinstance(contender, OurFlowContender)]

    return {
        "isolation": lambda: isolation.measure(
            run, contenders(0, 10), arrivals, load(size.load, size.load_seconds), due=size.hang, rounds=rounds
        ),
        "limits": lambda: limits.measure(
            run, contenders(), arrivals, seconds=size.seconds, limited=size.limited_seconds, rounds=rounds
        ),
        "keys": lambda: keys.measure(
            run, ours, arrivals, load(size.load, size.keys / size.load), keys=size.keys, flood=size.flood, rounds=rounds
        ),
        "priorities": lambda: priorities.measure(run, contenders(), arrivals, future=size.retries, **drains),
        "overload": lambda: overload.measure(run, system, size.seconds, rounds),
        "backlog": lambda: backlogs.measure(run, contenders(), arrivals, due=size.backlog, **drains),
        "catch-up": lambda: backlogs.catch_up(
            run, all_ours(), arrivals, load(size.busy, size.seconds), jobs=size.ticking, rounds=rounds
        ),
    }
