"""Parts of the measurement of flow, by name."""

from argparse import Namespace
from collections.abc import Callable

from benchmarks.contenders import crowd
from benchmarks.contenders.crowd import OurCrowd
from benchmarks.measures.flow import backlogs, isolation, limits, overload, priorities
from benchmarks.report.run import Run
from benchmarks.system import System


def parts(run: Run, system: System, options: Namespace) -> dict[str, Callable[[], object]]:
    """Return what measures each."""
    ours, arrivals = OurCrowd(system.ours), system.arrivals
    crowds = crowd.of(system.contenders)
    peers = [each for each in crowds if not isinstance(each, OurCrowd)]
    all_ours = [each for each in crowds if isinstance(each, OurCrowd)]
    seconds, rounds, future = options.seconds, options.rounds, options.future
    load = isolation.Load(options.load, seconds)
    return {
        "isolation": lambda: isolation.measure(run, crowds, arrivals, load, due=options.due, rounds=rounds),
        "limits": lambda: limits.measure(run, [ours, *peers[-1:]], arrivals, seconds, rounds),
        "priorities": lambda: priorities.measure(run, ours, arrivals, seconds=seconds, future=future, rounds=rounds),
        "keys": lambda: priorities.keys(run, ours, arrivals, options.executions, rounds),
        "overload": lambda: overload.measure(run, system, seconds, rounds),
        "backlog": lambda: backlogs.measure(run, ours, arrivals, seconds=seconds, due=future, rounds=rounds),
        "catch-up": lambda: backlogs.catch_up(run, all_ours, arrivals, load, rounds),
    }
