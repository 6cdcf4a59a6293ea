"""System under measurement: contenders with their servers, and the receiver."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.dev.servers import Valkey
from app.dev.stack.stack_processes import Processes
from benchmarks import environment
from benchmarks.arrivals import Arrivals
from benchmarks.contenders import peer
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.peer import WORKERS, Peer, PgQueuer
from benchmarks.contenders.workflow_contenders import OurWorkflows, PeerWorkflows, WorkflowContender


@dataclass(frozen=True, slots=True)
class System:
    """Contenders, their receiver and their servers."""

    ours: Ours
    contenders: list[Contender]
    arrivals: Arrivals
    processes: Processes
    """Other processes of the benchmark, in the product's environment."""
    valkey: Valkey
    logs: Path
    peers: Processes | None = None
    """Processes in the environment of the peers, if there are any."""

    @property
    def all_ours(self) -> list[Ours]:
        """Return the contenders that are versions of the product."""
        return [contender for contender in self.contenders if isinstance(contender, Ours)]

    def workflow_contenders(self, peers: Sequence[str]) -> list[WorkflowContender]:
        """Return the contenders with workflows."""
        own: list[WorkflowContender] = [OurWorkflows(self.ours), OurWorkflows(self.ours, items=True)]
        return own if self.peers is None else [*own, *(PeerWorkflows(name, self.peers) for name in peers)]


@contextmanager
def running(peers: Sequence[str] = (), trees: Sequence[Path] = ()) -> Iterator[System]:
    """Start servers, the API and the receiver, and stop all at the end; `trees` are other working trees of ours."""
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="te-bench-")))
        plain = Processes(os.environ, logs=logs, cwd=environment.ROOT)
        stack.callback(plain.stop)
        arrivals = stack.enter_context(Arrivals(plain))
        valkey = stack.enter_context(Valkey())
        ours = stack.enter_context(Ours(logs))
        versions = [stack.enter_context(Ours(logs, tree.name, tree=tree)) for tree in trees]
        theirs = _peer_processes(ours, stack, logs) if peers else None
        others = [] if theirs is None else _peers(peers, ours, theirs)
        yield System(ours, [ours, *versions, *others], arrivals, plain, valkey, logs, theirs)


def _peer_processes(ours: Ours, stack: ExitStack, logs: Path) -> Processes:
    """Prepare the environment of the peers, with a database for each that needs one, and a Redis with a log on disk."""
    environment.build_peers()
    valkey = stack.enter_context(Valkey("everysec"))
    given = {
        "PGDSN": peer.create_database(ours.stack.database_url, "pgqueuer"),
        "DBOS_URL": peer.create_database(ours.stack.database_url, "dbos"),
        "BENCH_REDIS_URL": valkey.url,
        "BENCH_SCRATCH": str(logs),
        "PYTHONUNBUFFERED": "1",
    }
    processes = Processes(
        dict(os.environ) | given, logs=logs / "peers", cwd=environment.ROOT, python=environment.peers_python()
    )
    stack.callback(processes.stop)
    return processes


def _peers(names: Sequence[str], ours: Ours, processes: Processes) -> list[Contender]:
    known = [name for name in names if name in WORKERS]
    return [PgQueuer(processes, ours.database_pid) if name == "pgqueuer" else Peer(name, processes) for name in known]
