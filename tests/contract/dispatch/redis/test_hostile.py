"""A Redis that sends malformed answers: only its own deliveries fail, and each uses less than 1 MB."""

import asyncio
import contextlib
import itertools
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import redis

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.redis_stream import RedisStreamDispatcher
from app.dev.servers import Valkey
from app.queue.executions.execution_model import DeliveryError
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import Opening, identity, rendered, run

CASES, AT_ONCE = 200, 5
FLOOD = bytes(65_536)
MAX_BYTES = 1_000_000  # per attempt
LENGTHS = (-2, -1, 0, 5, 64, 65_536, 65_537, 2**31, 2**32, 2**63)
TYPES = b"$$$$$$**+-:_,#!=(%~>|\x00"  # mostly strings, the type of the parts of a valid answer
ENDINGS = ("close", "silence", "flood", "flood", "drip")


def malformed_answer(generator: random.Random) -> bytes:
    """Return an answer, or part of an answer, that no correct server gives to the script."""
    kind, length = bytes([generator.choice(TYPES)]), generator.choice(LENGTHS)
    announced = kind + b"%d\r\n" % length + generator.randbytes(generator.randrange(1_000))
    return generator.choice(
        [
            *(announced, announced, announced),
            kind + generator.randbytes(generator.randrange(100)) + b"\r\n",
            kind + b"x" * generator.randrange(200_000),
            kind + b"1\r\n" * generator.randrange(20_000),
            (kind + b"1\r\n") * generator.randrange(20_000),
            b"-%s %b\r\n" % (generator.choice([b"NOSCRIPT", b"MOVED", b"ASK", b"LOADING"]), b"9" * 60_000),
            generator.randbytes(65_536),
        ]
    )


@asynccontextmanager
async def hostile_redis(seed: int) -> AsyncIterator[str]:
    """Serve one malformed answer per connection, each with a random ending."""
    numbers = itertools.count()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        generator = random.Random(f"{seed}:{next(numbers)}")
        sent, ending = malformed_answer(generator), generator.choice(ENDINGS)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while await reader.read(65_536):
                chunks = (sent[at : at + 1] for at in range(len(sent))) if ending == "drip" else [sent]
                for chunk in itertools.chain([sent], itertools.repeat(FLOOD)) if ending == "flood" else chunks:
                    writer.write(chunk)
                    await writer.drain()
                    await asyncio.sleep(0)
                if ending == "close":
                    break
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
        yield f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


def spec(url: str, timeout_ms: int = 500) -> dict[str, Any]:
    fields = {"redis_url": url, "stream": "beside", "fields_template": {"a": "1"}, "timeout_ms": timeout_ms}
    return rendered(EndpointType.REDIS_STREAM, fields)


async def attack(dispatcher: RedisStreamDispatcher, url: str, number: int) -> None:
    # A random answer can be well-formed; then the delivery succeeds.
    with contextlib.suppress(DeliveryError):
        await dispatcher.send(spec(url), identity(f"exec_hostile_{number}"))


def test_malformed_answers_fail_only_their_own_deliveries(valkey: Valkey) -> None:
    async def main(dispatcher: RedisStreamDispatcher) -> int:
        async with hostile_redis(seed=26) as url:
            await dispatcher.send(spec(valkey.url, timeout_ms=60_000), identity("exec_first"))
            tracemalloc.start()
            for first in range(0, CASES, AT_ONCE):
                healthy = spec(valkey.url, timeout_ms=60_000)
                await asyncio.gather(
                    *(attack(dispatcher, url, number) for number in range(first, first + AT_ONCE)),
                    *(dispatcher.send(healthy, identity(f"exec_{first}_{number}")) for number in range(5)),
                )
            return tracemalloc.get_traced_memory()[1]

    try:
        peak = run(Opening(RedisStreamDispatcher), main)
    finally:
        tracemalloc.stop()
    with redis.Redis.from_url(valkey.url) as client:
        assert client.xlen("beside") == 1 + 5 * CASES // AT_ONCE
        client.flushall()
    assert peak < AT_ONCE * MAX_BYTES
