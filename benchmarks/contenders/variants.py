"""Variants of the product: with a long history, many waiting rows, many shards, or no hints."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from app.dev.servers import Postgres
from benchmarks import environment, history
from benchmarks.contenders.ours import Ours
from benchmarks.system import System

_SHARDS = 16


def latency_variants(system: System, future: int) -> Iterator[Callable[[], Ours]]:
    """Yield functions that make the variants; run the variants one after the other."""
    yield partial(Ours, system.logs, f"ours, {_SHARDS} shards", env={"TE_QUEUE_SHARDS": str(_SHARDS)})
    # The worker listens to another Redis, to which no process sends hints.
    yield partial(Ours, system.logs, "ours, no hints", worker_env={"TE_WAKEUP_REDIS_URL": system.valkey.url})
    build = partial(history.build, finished=0, future=future)
    yield partial(Ours, system.logs, f"ours, {future:,} wait", prepare=build)


@contextmanager
def long_history(system: System, finished: int, future: int) -> Iterator[Ours]:
    """Run the product with a long history, which is built once and kept for the next run.

    An older schema is upgraded. Remove the directory if its schema is newer, or if building was interrupted.
    """
    kept = environment.home() / f"history-{finished}-{future}"
    built = kept / "built"

    def build(url: str) -> None:
        if not built.exists():
            print(f"building a history of {finished:,} + {future:,} executions in {kept}", flush=True)
            history.build(url, finished, future)
            built.touch()

    with (
        Postgres(keep_in=kept) as postgres,
        Ours(system.logs, "ours, long history", prepare=build, postgres=postgres) as ours,
    ):
        yield ours
