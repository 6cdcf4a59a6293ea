"""Search for the fastest settings of each peer: a drain with each of them."""

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.peer import TRIED, Peer
from benchmarks.measures import drain
from benchmarks.report.results import Section
from benchmarks.report.run import Run


def measure(run: Run, peers: list[Peer], arrivals: Arrivals, count: int, rounds: int) -> Section:
    """Drain the backlog of each peer with each of its settings in turn; every second round in the opposite order."""
    section = run.section(f"Settings of the peers, HTTP drain of {count:,}")
    tried = [(peer, command) for peer in peers for command in TRIED[peer.name]]
    for number in range(rounds):
        run.calibrate()
        for peer, command in tried if number % 2 == 0 else reversed(tried):
            with peer.with_command(command):
                figures = drain.drain(peer, arrivals.url, arrivals, count)
                section.add(drain.STEADY, f"{peer.name} {TRIED[peer.name].index(command) + 1}", figures[drain.STEADY])
                print(f"  {peer.remark}: {figures[drain.STEADY]:,.0f}/s", flush=True)
        run.calibrate()
    for peer in peers:
        for place, command in enumerate(TRIED[peer.name], 1):
            run.remark(f"{peer.name} {place}: `{' '.join(command)}`")
    return section
