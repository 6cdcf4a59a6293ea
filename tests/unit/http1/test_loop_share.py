"""Limit on the bytes of answers that are read in one turn of the event loop."""

import asyncio

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http1.connection import BYTES_AT_ONCE, BYTES_PER_TURN, HttpConnection, LoopShare


class Reader(HttpConnection):
    """Connection with an endless answer: reads its share in each turn."""

    def __init__(self, share: LoopShare, number: int, served: list[int], wanted: int) -> None:
        super().__init__(share, lambda _lost: None)
        self.number, self.served, self.wanted = number, served, wanted

    def read_on(self) -> None:
        self.served.append(self.number)
        self._share.take(self.wanted)
        self._share.line_up(self)


def test_limit_is_per_turn_and_is_reset_by_the_next_turn() -> None:
    async def main() -> None:
        share = LoopShare()
        for _ in range(3):
            taken = [share.take(1_000_000) for _ in range(100)]
            assert max(taken) == BYTES_AT_ONCE
            assert sum(taken) == BYTES_PER_TURN
            assert share.take(1) == 0
            await asyncio.sleep(0)

    asyncio.run(main())


def test_small_reads_are_never_limited() -> None:
    async def main() -> None:
        share = LoopShare()
        assert [share.take(300) for _ in range(400)] == [300] * 400

    asyncio.run(main())


def test_connection_is_served_once_in_a_turn() -> None:
    async def main() -> None:
        share, served = LoopShare(), list[int]()
        for number in (1, 2):
            Reader(share, number, served, 0).read_on()
        for turn in range(2, 5):
            await asyncio.sleep(0)
            assert served == [1, 2] * turn

    asyncio.run(main())


def test_waiting_connections_are_served_in_order() -> None:
    """Twenty endless answers: each turn reads a part of them, and other callbacks run between turns."""

    async def main() -> None:
        share, served, turns = LoopShare(), list[int](), list[int]()
        for number in range(20):
            share.line_up(Reader(share, number, served, 1_000_000))
        while len(served) < 100:
            before = len(served)
            await asyncio.sleep(0)
            turns.append(len(served) - before)
        assert served[:100] == list(range(20)) * 5
        assert max(turns) == BYTES_PER_TURN // BYTES_AT_ONCE

    asyncio.run(main())
