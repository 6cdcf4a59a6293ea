"""Contenders with many endpoints, for backlogs and steady streams of deliveries."""

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
_SLOTS = 200  # slots of each worker process, the product's default
_IN_A_DAY = "now() + INTERVAL '1 day' + n * INTERVAL '1 millisecond'"


@dataclass(frozen=True, slots=True)
class Stream:
    """`count` deliveries to one URL: the first due at a Unix time, each further delivery `apart` seconds later.

    Without `first`, all deliveries are due when they are enqueued.
    """

    url: str
    count: int
    first: float | None = None
    apart: float = 0.0

    def instants(self) -> list[float]:
        """Return the due time of each delivery."""
        return [(self.first or 0.0) + number * self.apart for number in range(self.count)]


class FlowContender(ABC):
    """A contender with an endpoint for each URL."""

    name: str
    remark: str
    database_pid: int | None = None

    @abstractmethod
    def register(self, urls: Sequence[str], **fields: Any) -> None:
        """Create an endpoint for each URL; `fields` are added to the product's endpoints."""

    @abstractmethod
    def enqueue(self, streams: Sequence[Stream], **fields: Any) -> dict[str, Times]:
        """Enqueue deliveries, and return the due times of delayed deliveries by URL.

        `fields` are added to the product's jobs. The product also supports several customers, which take turns.
        """

    @abstractmethod
    def fill(self, urls: Sequence[str], count: int, *, priority: str = "", waits: bool = False) -> None:
        """Write a backlog for each URL.

        The priority may depend on the row number `n`. With `waits`, the deliveries are due in a day.
        """

    @abstractmethod
    def settle(self) -> None:
        """Update the planner's statistics, and take a checkpoint."""

    @abstractmethod
    def delivered_by_priority(self) -> dict[int, int]:
        """Return the deliveries by priority since the last `clear`."""

    @abstractmethod
    def start(self) -> Child:
        """Start a worker of two processes, each with 200 slots."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all jobs; no worker may run."""

    @abstractmethod
    def limited_to(self, most: int) -> "FlowContender":
        """Return this contender with a limit of `most` concurrent deliveries per endpoint."""

    @contextmanager
    def at_work(self, workers: int = 1, *, kill: bool = False) -> Iterator[list[Child]]:
        """Lend started workers; at the end stop them, or kill them because their deliveries never end."""
        with ExitStack() as stack:
            children = [stack.enter_context(ended(self.start())) for _ in range(workers)]
            yield children
            if kill:
                for child in children:
                    child.kill()


class OurFlowContender(FlowContender):
    """The product with an endpoint for each URL."""

    def __init__(self, ours: Ours, limits: Mapping[str, Any] | None = None) -> None:
        self.ours = ours
        self.name, self.remark, self.database_pid = ours.name, ours.remark, ours.database_pid
        self._fields = {} if limits is None else {"limits": limits}

    def limited_to(self, most: int) -> "OurFlowContender":
        return OurFlowContender(self.ours, {"max_in_flight": most})

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
        """Return the rows of a query, two numbers each."""
        return backlog.ask(self.ours.stack.database_url, query)

    def execute(self, statement: str) -> None:
        """Execute a statement without a result."""
        backlog.execute(self.ours.stack.database_url, statement)

    def start(self) -> Child:
        return self.ours.start()[0]

    def clear(self) -> None:
        backlog.clear(self.ours.stack.database_url)


class PgQueuerFlowContender(FlowContender):
    """pgqueuer with an entrypoint for each URL, with `limit` concurrent deliveries over all processes (0: no limit)."""

    def __init__(self, peer: PgQueuer, limit: int) -> None:
        self.name = f"pgqueuer, concurrency_limit={limit}" if limit else "pgqueuer"
        self.remark = f"two processes with max_concurrent_tasks={_SLOTS}, an entrypoint for each URL"
        self.database_pid = peer.database_pid
        self._peer = peer
        self._limit = limit
        self._entrypoints: dict[str, str] = {}
        self._started = 0

    def limited_to(self, most: int) -> "PgQueuerFlowContender":
        return PgQueuerFlowContender(self._peer, most)

    def register(self, urls: Sequence[str], **_fields: Any) -> None:
        for url in urls:
            self._entrypoints.setdefault(url, f"post-{len(self._entrypoints)}")

    def enqueue(self, streams: Sequence[Stream], *, priority: int = 0, **_fields: Any) -> dict[str, Times]:
        backlogs, later = _parted(streams)
        for count, urls in backlogs.items():
            self.fill(urls, count)
        plan = [asdict(stream) | {"entrypoint": self._entrypoints[stream.url]} for stream in later]
        wanted = {"streams": plan, "priority": priority, "body": BODY, "token": TOKEN}
        due: dict[str, Times] = self._run("enqueue", wanted) if plan else {}
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
        self._run("clear", {})

    def _run(self, command: str, plan: Mapping[str, Any]) -> Any:
        file = self._peer.processes.logs / "plan.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(plan))
        return json.loads(self._peer.processes.run((_PEER, command, str(file))))


_PEER = "benchmarks.peers.pgqueuer_flow"


def flow_contenders(contenders: Sequence[Contender], limits: Sequence[int] = (0,)) -> list[FlowContender]:
    """Return the contenders that support many endpoints: ours, and pgqueuer with each limit."""
    found: list[FlowContender] = [
        OurFlowContender(contender) for contender in contenders if isinstance(contender, Ours)
    ]
    for contender in contenders:
        if isinstance(contender, PgQueuer):
            found += [PgQueuerFlowContender(contender, limit) for limit in limits]
    return found


def _input(customer: int) -> dict[str, str]:
    return BODY | {"user_id": f"u_{customer + 1}"}


def _parted(streams: Sequence[Stream]) -> tuple[dict[int, list[str]], list[Stream]]:
    """Split streams: URLs that are due now, by the length of their backlogs, and streams that are due later."""
    backlogs: dict[int, list[str]] = {}
    for stream in streams:
        if stream.first is None:
            backlogs.setdefault(stream.count, []).append(stream.url)
    return backlogs, [stream for stream in streams if stream.first is not None]
