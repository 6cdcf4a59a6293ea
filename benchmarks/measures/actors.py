"""Dramatiq actors over the product's broker and others: drain and latency, with one and with four processes."""

from benchmarks.contenders.actor_contenders import ActorContender, Records
from benchmarks.measures import drain, latency
from benchmarks.report.run import Run

PROCESSES = (1, 4)


def measure(
    run: Run, contenders: list[ActorContender], records: Records, *, count: int, samples: int, rounds: int
) -> None:
    """Measure the contenders in turn: drains for each number of processes, then the latency of an idle system."""
    for number in PROCESSES:
        for contender in contenders:
            contender.count = number
        title = f"Drain of {count:,} Dramatiq messages, {number} x 8 threads"
        drain.measure(run, contenders, records, count, rounds, title=title)
    for contender in contenders:
        contender.count = 1
    latency.measure(run, contenders, records, samples, rounds, title="Latency of Dramatiq messages")
