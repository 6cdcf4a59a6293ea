"""Crowd: deliveries to many URLs for one contender, as backlogs and as steady streams."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from app.dev.process.child import Child
from benchmarks import backlog
from benchmarks.contenders.contender import BODY, TOKEN, Contender, Times, ended
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.peer import PgQueuer

_BATCH = 1000
_SLOTS = 200  # of each worker process, as ours have by default
_IN_A_DAY = "now() + INTERVAL '1 day' + n * INTERVAL '1 millisecond'"


@dataclass(frozen=True, slots=True)
class Stream:
    """So many deliveries to one URL, the first due at a Unix time, each other one `apart` seconds after it.

    Without `first` they are all due when they are enqueued.
    """

    url: str
    count: int
    first: float | None = None
    apart: float = 0.0

    def instants(self) -> list[float]:
        """Return when each is due."""
        return [(self.first or 0.0) + number * self.apart for number in range(self.count)]


class Crowd(ABC):
    """A contender with an endpoint for each URL."""

    name: str
    remark: str
    database_pid: int | None = None

    @abstractmethod
    def register(self, urls: Sequence[str], **fields: Any) -> None:
        """Make an endpoint for each URL; `fields` are added to those of ours."""

    @abstractmethod
    def enqueue(self, streams: Sequence[Stream], **fields: Any) -> dict[str, Times]:
        """Enqueue deliveries, and return by URL when each is due that is due later; `fields` are those of our jobs.

        Ours may be for several customers, who take turns.
        """

    @abstractmethod
    def fill(self, urls: Sequence[str], count: int, *, priority: str = "", waits: bool = False) -> None:
        """Write a backlog for each URL, of a priority that may depend on the number `n`; if it waits, due in a day."""

    @abstractmethod
    def settle(self) -> None:
        """Give the planner statistics, and start with a fresh checkpoint."""

    @abstractmethod
    def delivered_by_priority(self) -> dict[int, int]:
        """Return how many were delivered since all was removed."""

    @abstractmethod
    def start(self) -> Child:
        """Start a worker of two processes, each with 200 slots."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all that waits; no worker runs."""

    @abstractmethod
    def limited_to(self, most: int) -> "Crowd":
        """Return one that may have so many deliveries of an endpoint at once."""

    @contextmanager
    def at_work(self, workers: int = 1, *, kill: bool = False) -> Iterator[list[Child]]:
        """Lend so many workers; at the end they are stopped, or killed because what they wait for never comes."""
        with ExitStack() as stack:
            children = [stack.enter_context(ended(self.start())) for _ in range(workers)]
            yield children
            if kill:
                for child in children:
                    child.kill()


class OurCrowd(Crowd):
    """Endpoints of ours."""

    def __init__(self, ours: Ours, limits: Mapping[str, Any] | None = None) -> None:
        self.ours = ours
        self.name, self.remark, self.database_pid = ours.name, ours.remark, ours.database_pid
        self._fields = {} if limits is None else {"limits": limits}

    def limited_to(self, most: int) -> "OurCrowd":
        return OurCrowd(self.ours, {"max_in_flight": most})

    def register(self, urls: Sequence[str], **fields: Any) -> None:
        for url in urls:
            self.ours.endpoint(url, **self._fields, **fields)

    def enqueue(self, streams: Sequence[Stream], *, customers: range = range(1), **fields: Any) -> dict[str, Times]:
        backlogs, later = _parted(streams)
        for count, urls in backlogs.items():
            self.fill(urls, count)
        wanted = sorted((instant, stream.url) for stream in later for instant in stream.instants())
        due: dict[str, Times] = {stream.url: {} for stream in later}
        for begun in range(0, len(wanted), _BATCH):
            batch = wanted[begun : begun + _BATCH]
            run_at = [datetime.fromtimestamp(instant, UTC).isoformat() for instant, _url in batch]
            jobs = [
                self.ours.job(
                    url, trigger="DELAYED", run_at=at, input=_input(customers[number % len(customers)]), **fields
                )
                for number, (at, (_, url)) in enumerate(zip(run_at, batch, strict=True), begun)
            ]
            items = self.ours.stack.api.post("/jobs/batch", {"jobs": jobs})["items"]
            for item, (instant, url) in zip(items, batch, strict=True):
                due[url][item["job"]["execution"]["execution_id"]] = instant
        if backlogs:
            self.settle()
        return due

    def fill(
        self, urls: Sequence[str], count: int, *, priority: str = "", waits: bool = False, limit_key: str = ""
    ) -> None:
        columns = {"priority": priority, "limit_key": limit_key}
        backlog.fill(
            self.ours.stack.database_url,
            [self.ours.endpoint(url) for url in urls],
            count,
            json.dumps(BODY),
            columns={name: value for name, value in columns.items() if value},
            **({"status": "RETRYING", "due": _IN_A_DAY} if waits else {}),
        )

    def settle(self) -> None:
        self.ours.settle()

    def delivered_by_priority(self) -> dict[int, int]:
        return dict(self.ask("SELECT priority, count(*) FROM executions WHERE status = 'SUCCESS' GROUP BY priority"))

    def ask(self, query: str) -> list[tuple[int, int]]:
        """Return two numbers a row."""
        return backlog.ask(self.ours.stack.database_url, query)

    def execute(self, statement: str) -> None:
        """Change what the database holds."""
        backlog.execute(self.ours.stack.database_url, statement)

    def start(self) -> Child:
        return self.ours.start()[0]

    def clear(self) -> None:
        backlog.clear(self.ours.stack.database_url)


class PgQueuerCrowd(Crowd):
    """Entrypoints of pgqueuer, each limited to so many deliveries at once over all processes; 0: no limit."""

    def __init__(self, peer: PgQueuer, limit: int) -> None:
        self.name = f"pgqueuer, concurrency_limit={limit}" if limit else "pgqueuer"
        self.remark = f"two processes with max_concurrent_tasks={_SLOTS}, an entrypoint for each URL"
        self.database_pid = peer.database_pid
        self._peer = peer
        self._limit = limit
        self._entrypoints: dict[str, str] = {}
        self._started = 0

    def limited_to(self, most: int) -> "PgQueuerCrowd":
        return PgQueuerCrowd(self._peer, most)

    def register(self, urls: Sequence[str], **_fields: Any) -> None:
        for url in urls:
            self._entrypoints.setdefault(url, f"post-{len(self._entrypoints)}")

    def enqueue(self, streams: Sequence[Stream], *, priority: int = 0, **_fields: Any) -> dict[str, Times]:
        backlogs, later = _parted(streams)
        for count, urls in backlogs.items():
            self.fill(urls, count)
        plan = [asdict(stream) | {"entrypoint": self._entrypoints[stream.url]} for stream in later]
        wanted = {"streams": plan, "priority": priority, "body": BODY, "token": TOKEN}
        due: dict[str, Times] = self._tell("enqueue", wanted) if plan else {}
        if backlogs:
            self.settle()
        return due

    def fill(self, urls: Sequence[str], count: int, *, priority: str = "", waits: bool = False) -> None:
        backlog.fill_pgqueuer(
            self._peer.database_url,
            {url: self._entrypoints[url] for url in urls},
            count,
            {"body": BODY, "token": TOKEN},
            priority=priority or "0",
            **({"due": _IN_A_DAY} if waits else {}),
        )

    def settle(self) -> None:
        self._peer.settle()

    def delivered_by_priority(self) -> dict[int, int]:
        query = "SELECT priority, count(*) FROM pgqueuer_log WHERE status = 'successful' GROUP BY priority"
        return dict(backlog.ask(self._peer.database_url, query))

    def start(self) -> Child:
        self._started += 1
        words = ("work", str(len(self._entrypoints)), str(self._limit), str(_SLOTS))
        return self._peer.processes.launch(f"{self.name}-{self._started}", (_PEER, *words))

    def clear(self) -> None:
        self._tell("clear", {})

    def _tell(self, command: str, plan: Mapping[str, Any]) -> Any:
        file = self._peer.processes.logs / "plan.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(plan))
        return json.loads(self._peer.processes.run((_PEER, command, str(file))))


_PEER = "benchmarks.peers.pgqueuer_crowd"


def of(contenders: Sequence[Contender], limits: Sequence[int] = (0,)) -> list[Crowd]:
    """Return the crowds of those that have any: ours, and pgqueuer with each limit."""
    crowds: list[Crowd] = [OurCrowd(one) for one in contenders if isinstance(one, Ours)]
    for one in contenders:
        if isinstance(one, PgQueuer):
            crowds += [PgQueuerCrowd(one, limit) for limit in limits]
    return crowds


def _input(customer: int) -> dict[str, str]:
    return BODY | {"user_id": f"u_{customer + 1}"}


def _parted(streams: Sequence[Stream]) -> tuple[dict[int, list[str]], list[Stream]]:
    """Return the URLs of what is due now by the length of their backlogs, and what is due later."""
    backlogs: dict[int, list[str]] = {}
    for stream in streams:
        if stream.first is None:
            backlogs.setdefault(stream.count, []).append(stream.url)
    return backlogs, [stream for stream in streams if stream.first is not None]
