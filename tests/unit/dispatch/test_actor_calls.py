"""Calls of Python functions that each message makes: in the worker, and in a process with actors."""

import asyncio
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dramatiq
from dramatiq import Worker
from task_executor_dramatiq import TaskExecutorBroker
from task_executor_dramatiq import frames as kit_frames

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor import ActorDispatcher
from tests.actor_process import answer
from tests.contract.dispatch.dispatching import identity, run
from tests.job_costs import Calls, calls_of_this_thread
from tests.unit.dispatch.actor_services import opening, path_of, quick_registrations, service_of
from tests.unit.dispatch.conftest import PATIENCE_SECONDS
from tests.waiting import eventually

TOGETHER = 100
MAX_WORKER_CALLS, MAX_PROCESS_CALLS = 53, 104
SPEC = {"actor": "mail", "queue": "default", "timeout_ms": 30_000, "max_lost": 3}
ARGUMENTS = {
    "queue_name": "default",
    "actor_name": "mail",
    "args": ["a"],
    "kwargs": {},
    "options": {},
    "message_id": "m",
    "message_timestamp": 1,
}


def least(counts: list[Counter[str]]) -> int:
    """Return the calls of each message in the round with the fewest."""
    return min(each.total() for each in counts) // TOGETHER


def test_message_makes_few_calls_in_the_worker(sockets: Path) -> None:
    service, rounds = service_of(sockets, quick_registrations()), 4
    spec = {**SPEC, "arguments": ARGUMENTS}

    async def main(dispatcher: ActorDispatcher) -> int:
        await asyncio.to_thread(eventually, path_of(service).is_socket)
        process = asyncio.create_task(asyncio.to_thread(answer, path_of(service), TOGETHER, rounds))
        await asyncio.to_thread(eventually, lambda: [each.total for each in service.processes.serving("mail")])

        async def send_together(number: int) -> Counter[str]:
            sending = [dispatcher.send(spec, identity(f"e{number}-{each}")) for each in range(TOGETHER)]
            with calls_of_this_thread() as counts:
                await asyncio.gather(*sending)
            return counts

        counts = [await send_together(number) for number in range(rounds)][1:]
        await dispatcher.close()
        await process
        return least(counts)

    assert run(opening(service), main) <= MAX_WORKER_CALLS


def test_message_makes_few_calls_in_its_process(listening: tuple[Path, socket.socket]) -> None:
    path, server = listening
    calls = Calls()
    broker = TaskExecutorBroker(url="http://127.0.0.1:1", worker=f"unix:{path}", middleware=[], results=False)
    dramatiq.actor(lambda word: None, actor_name="mail", broker=broker)
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    counts = list[Counter[str]]()
    with ThreadPoolExecutor(1) as pool:
        threading.setprofile(calls.note)
        pool.submit(worker.start)
        with server.accept()[0] as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(kit_frames.encode("WELCOME", endpoints={"mail": "mail"}, refused={}))
            reader, ready = kit_frames.FrameReader(), False
            while not ready:
                ready = any(frame["kind"] == "ROOM" for frame in reader.feed(connection.recv(65_536)))
            threading.setprofile(None)  # type: ignore[arg-type]
            for number in range(4):
                calls.counts, calls.is_counting = Counter(), True
                keys = [(f"e{number}-{each}", 1) for each in range(TOGETHER)]
                about = {"actor": "mail", "queue": "default", "input": ARGUMENTS, "last_error": {}}
                connection.sendall(
                    b"".join(kit_frames.encode("MESSAGE", **kit_frames.named(key), **about) for key in keys)
                )
                done = 0
                while done < TOGETHER:
                    done += sum(frame["kind"] == "DONE" for frame in reader.feed(connection.recv(65_536)))
                connection.sendall(
                    b"".join(kit_frames.encode("WRITTEN", **kit_frames.named(key), is_written=True) for key in keys)
                )
                assert broker._links.outcomes.wait(PATIENCE_SECONDS) == 0  # noqa: SLF001 - nothing else shows it
                calls.is_counting = False
                counts.append(calls.counts)
            closed = pool.submit(worker.stop)
            while connection.recv(65_536):
                pass
        closed.result(PATIENCE_SECONDS)
    assert least(counts[1:]) <= MAX_PROCESS_CALLS
