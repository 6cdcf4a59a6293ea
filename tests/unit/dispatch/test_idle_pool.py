"""Pool of shared targets: opening, waiting for an opening, and closing after idle time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.idle_pool import IdlePool


class Target:
    """Target that records its openings and its closing."""

    def __init__(self) -> None:
        self.openings = 0
        self.may_open = asyncio.Event()
        self.failure: Exception | None = None
        self.is_closed = False

    async def open(self) -> "Target":
        self.openings += 1
        await self.may_open.wait()
        if self.failure is not None:
            raise self.failure
        return self

    async def close(self) -> None:
        self.is_closed = True


def run(body: Callable[[IdlePool[Target], Target], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        pool = IdlePool[Target]()
        try:
            await body(pool, Target())
        finally:
            await pool.close()

    asyncio.run(main())


async def use(pool: IdlePool[Target], target: Target) -> Target:
    async with pool.use("key", target.open) as lent:
        return lent


def test_one_opening_serves_all_waiting_users() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        users = [asyncio.create_task(use(pool, target)) for _ in range(3)]
        await asyncio.sleep(0)
        target.may_open.set()
        assert await asyncio.gather(*users) == [target] * 3
        assert await use(pool, target) is target
        assert target.openings == 1

    run(body)


def test_target_beyond_its_maximum_age_is_closed_after_its_last_user() -> None:
    async def main() -> None:
        pool = IdlePool[Target](max_age_seconds=0)
        old, new = Target(), Target()
        old.may_open.set()
        new.may_open.set()
        async with pool.use("key", old.open) as first:
            assert first is old
            assert await use(pool, new) is new
            assert not old.is_closed
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert old.is_closed
        await pool.close()
        assert new.is_closed

    asyncio.run(main())


def test_cancelled_user_leaves_the_opening_to_other_users() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        early, late = (asyncio.create_task(use(pool, target)) for _ in range(2))
        await asyncio.sleep(0)
        early.cancel()
        target.may_open.set()
        assert await late is target
        assert target.openings == 1

    run(body)


def test_failed_opening_is_repeated_by_the_next_user() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        target.may_open.set()
        target.failure = ValueError("no")
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await use(pool, target)
        target.failure = None
        assert await use(pool, target) is target
        assert target.openings == 3

    run(body)


def test_only_idle_targets_are_closed() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        target.may_open.set()
        async with pool.use("key", target.open):
            await pool.sweep(0)
            assert not target.is_closed
        await pool.sweep(3600)
        assert not target.is_closed
        await pool.sweep(0)
        assert target.is_closed
        await use(pool, target)
        assert target.openings == 2

    run(body)


def test_forgotten_target_is_not_lent_again() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        target.may_open.set()
        async with pool.use("key", target.open):
            pool.forget(target)
            await use(pool, target)
        assert target.openings == 2
        assert not target.is_closed

    run(body)


def test_close_closes_open_targets_and_cancels_openings() -> None:
    async def body(pool: IdlePool[Target], target: Target) -> None:
        target.may_open.set()
        await use(pool, target)
        slow = Target()
        waiting = asyncio.create_task(use_other(pool, slow))
        await asyncio.sleep(0)
        await pool.close()
        assert target.is_closed
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not slow.is_closed

    run(body)


async def use_other(pool: IdlePool[Target], target: Target) -> None:
    async with pool.use("other", target.open):
        pass
