"""System under measurement: the contenders with their servers, and the receiver."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from app.dev.servers import Valkey
from app.dev.stack.processes import Processes
from benchmarks import environment
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.peer import Peer, PgQueuer

PEERS = ("pgqueuer", "dramatiq")


@dataclass(frozen=True, slots=True)
class System:
    """What is measured and what it delivers to."""

    ours: Ours
    contenders: list[Contender]
    arrivals: Arrivals


@contextmanager
def running(peers: Sequence[str] = PEERS, trees: Sequence[Path] = ()) -> Iterator[System]:
    """Start servers, the API and the receiver; all end with the block. `trees` are other working trees of ours."""
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="te-bench-")))
        plain = Processes(os.environ, logs=logs, cwd=environment.ROOT)
        stack.callback(plain.stop)
        arrivals = stack.enter_context(Arrivals(plain))
        ours = Ours(logs)
        contenders: list[Contender] = [ours, *(Ours(logs, tree.name, tree) for tree in trees)]
        for one in contenders:
            if isinstance(one, Ours):
                stack.callback(one.stack.stop)
                one.open()
        if peers:
            contenders += _peers(peers, ours, stack, logs)
        yield System(ours, contenders, arrivals)


def _peers(names: Sequence[str], ours: Ours, stack: ExitStack, logs: Path) -> list[Contender]:
    environment.build_peers()
    valkey = stack.enter_context(Valkey())
    database_url = _own_database(ours.stack.database_url, "pgqueuer")
    given = {"PGDSN": database_url, "BENCH_REDIS_URL": valkey.url, "PYTHONUNBUFFERED": "1"}
    processes = Processes(
        dict(os.environ) | given, logs=logs / "peers", cwd=environment.ROOT, python=environment.peers_python()
    )
    stack.callback(processes.stop)
    made: list[Contender] = []
    for name in names:
        if name == "pgqueuer":
            pgqueuer = PgQueuer(processes, database_url, ours.database_pid)
            pgqueuer.open()
            made.append(pgqueuer)
        else:
            made.append(Peer(name, processes, ("dramatiq", "benchmarks.peers.dramatiq_peer", "-p", "2", "-t", "8")))
    return made


def _own_database(url: str, name: str) -> str:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return url.rsplit("/", 1)[0] + f"/{name}"
