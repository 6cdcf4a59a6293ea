"""`make bench`: what the system does on this machine, beside plain Dramatiq + Redis in the same run.

Client, database, Redis, workers and receiver share the machine's cores, for both sides alike.
"""

import argparse

from benchmarks import creating, draining, timing
from benchmarks.arrivals import Arrivals
from benchmarks.report import Figure, show
from benchmarks.system import running


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--executions", type=int, default=10_000, help="how many each drain delivers")
    parser.add_argument("--samples", type=int, default=300, help="how many latencies are taken")
    options = parser.parse_args()
    arrivals = Arrivals()
    figures: list[Figure] = []
    print("starting; each line below takes up to a minute", flush=True)
    with running() as system:
        for measure in (draining.measure, creating.measure, timing.measure):
            for figure in measure(system, arrivals, options.executions, options.samples):
                print(f"  {figure.name}: {figure.ours:,.1f} {figure.unit}", flush=True)
                figures.append(figure)
    show(figures)


if __name__ == "__main__":
    main()
