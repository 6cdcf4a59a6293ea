"""`make bench`: throughput and latency of the product on this machine, beside its peers in the same run.

Client, database, Redis, workers and receiver share the cores of the machine, in the same way for every contender.
"""

import argparse

from benchmarks import commands
from benchmarks.report.run import Run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands.add_to(parser)
    options = parser.parse_args()
    run = Run(options.name, options.steps)
    options.command(run, options)
    if not run.sections:  # `publish` has written reports of its own
        return
    if options.keep:
        run.write(options.results)
    else:
        print(f"\n{run.text()}")


if __name__ == "__main__":
    main()
