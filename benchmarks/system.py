"""System under measurement: the development stack, and the worker that it is measured against."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.dev.process.child import Child
from app.dev.servers import Valkey
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.settings import product_environment


@dataclass(frozen=True, slots=True)
class System:
    """PostgreSQL (durable) and the API in a stack, Valkey and, on demand, one of the two workers."""

    stack: Stack
    valkey: Valkey

    def worker(self) -> Child:
        """Start our worker: two processes of eight threads."""
        return self.stack.worker(processes=2, threads=8)

    def yardstick(self) -> Child:
        """Start plain Dramatiq over Redis, with as many processes and threads."""
        command = programs.worker(processes=2, threads=8, module="benchmarks.baseline")
        name = f"yardstick-{len(self.stack.names)}"
        child = self.stack.launch(name, command, BENCH_REDIS_URL=self.valkey.url)
        self.stack.wait_for_line(child, "ready for action", times=2)
        return child


@contextmanager
def running() -> Iterator[System]:
    """Start servers and API; stops everything at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="te-bench-") as logs,
        Valkey() as valkey,
        Stack(commands={"web": programs.WEB}, env=product_environment(), logs=Path(logs)) as stack,
    ):
        yield System(stack, valkey)
