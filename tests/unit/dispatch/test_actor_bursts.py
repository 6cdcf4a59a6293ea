"""Burst of messages: more bytes than a connection holds, in both directions."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from task_executor_dramatiq.link import Inbox, Links

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import actor as actor_dispatch
from actors.dispatch.base import Unconditional
from app.kernel.function_types import Written
from app.queue.executions.execution_model import FollowingJob
from tests.contract.dispatch.dispatching import identity, run
from tests.unit.dispatch.actor_services import opening, path_of, quick_registrations, service_of
from tests.waiting import eventually

MESSAGES, MESSAGE_BYTES, THREADS = 256, 8_000, 16
SPEC = {"actor": "mail", "queue": "default", "timeout_ms": 30_000, "max_lost": 3}
PATIENCE_SECONDS = 20.0


class WrittenAtOnce(Unconditional):
    """Permission of a send whose outcome counts as stored, for which the end of the process waits."""

    def conclude_with(self, then: tuple[FollowingJob, ...], on_written: Written) -> None:
        on_written(True)


def work(inbox: Inbox, left: Iterator[int]) -> None:
    for _ in left:
        message = inbox.get(timeout=2 * PATIENCE_SECONDS)
        if message.start():
            message.conclude(is_failed=False)


def test_process_that_writes_while_a_burst_arrives_ends_all_messages(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads hold the lock of the connection, which its reading thread needs, until the worker reads."""
    monkeypatch.setattr(actor_dispatch, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    service = service_of(sockets, quick_registrations())
    links = Links(f"unix:{path_of(service)}", lambda: [{"name": "mail"}])
    links.threads, links.prefetch = THREADS, MESSAGES
    spec = {**SPEC, "arguments": {"args": ["x" * MESSAGE_BYTES], "kwargs": {}, "options": {}}}

    async def main(dispatcher: actor_dispatch.ActorDispatcher) -> None:
        await asyncio.to_thread(eventually, path_of(service).is_socket)
        inbox = links.set_room("default", MESSAGES)
        await asyncio.to_thread(links.open)
        with ThreadPoolExecutor(THREADS) as pool:
            left = iter(range(MESSAGES))
            working = [pool.submit(work, inbox, left) for _ in range(THREADS)]
            sent = (identity(f"e{number}")._replace(permission=WrittenAtOnce()) for number in range(MESSAGES))
            sending = (dispatcher.send(spec, each) for each in sent)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    assert len(await asyncio.gather(*sending)) == MESSAGES
            finally:
                await asyncio.to_thread(links.close)
        assert [each.exception() for each in working] == [None] * THREADS

    run(opening(service), main)
