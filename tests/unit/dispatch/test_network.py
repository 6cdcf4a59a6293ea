"""Limit on connections per host: turns in order, with bounded waits, and none while the process stops."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Unconditional
from actors.dispatch.network import PerHostLimit
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import NotSentError

Body = Callable[[PerHostLimit], Awaitable[None]]


def run(body: Body, *, limit: int = 1, patience_seconds: float = 60.0) -> int:
    """Run a body with a limit, and return how many targets the limit still stores afterwards."""

    async def main() -> int:
        turns = PerHostLimit(limit, patience_seconds=patience_seconds)
        await body(turns)
        return turns.targets_in_use

    return asyncio.run(main())


async def hold(turns: PerHostLimit, until: asyncio.Event, seen: list[str], name: str = "first") -> None:
    async with turns.take("target"):
        seen.append(name)
        await until.wait()


async def step() -> None:
    """Let all ready tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_unused_target_is_forgotten() -> None:
    async def body(turns: PerHostLimit) -> None:
        async with turns.take("a"), turns.take("b"):
            assert turns.targets_in_use == 2

    assert run(body) == 0


def test_turns_come_in_order_and_never_more_than_allowed() -> None:
    async def body(turns: PerHostLimit) -> None:
        seen: list[str] = []
        ends = {name: asyncio.Event() for name in "abcde"}
        tasks = [asyncio.create_task(hold(turns, ends[name], seen, name)) for name in "abcde"]
        await step()
        assert seen == ["a", "b"]
        for ended, then in (("b", "c"), ("c", "d"), ("a", "e")):
            ends[ended].set()
            await step()
            assert seen[-1] == then
        for end in ends.values():
            end.set()
        await asyncio.gather(*tasks)

    assert run(body, limit=2) == 0


def test_wait_that_is_too_long_defers_the_delivery() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        holder = asyncio.create_task(hold(turns, end, seen))
        await step()
        with pytest.raises(NotSentError) as caught:
            async with turns.take("target"):
                seen.append("second")
        assert (caught.value.defer_ms, caught.value.is_noted) == (0, False)
        end.set()
        await holder
        assert seen == ["first"]

    assert run(body, patience_seconds=0.0) == 0


def test_no_delivery_waits_in_a_process_that_stops() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        holder, waiter = (asyncio.create_task(hold(turns, end, seen, name)) for name in ("first", "second"))
        await step()
        turns.drain()
        for waiting in (waiter, hold(turns, end, seen, "third")):
            with pytest.raises(NotSentError) as caught:
                await waiting
            assert caught.value.defer_ms <= DUE_NOW_MS, "other processes must be able to send it at once"
        end.set()
        await holder
        assert seen == ["first"]

    assert run(body) == 0


def test_turn_of_a_cancelled_waiter_goes_to_the_next_waiter() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        end.set()
        async with turns.take("target"):
            second, third = (asyncio.create_task(hold(turns, end, seen, name)) for name in ("second", "third"))
            await step()
        second.cancel()  # it already has the turn, but has not run since
        await third
        with pytest.raises(asyncio.CancelledError):
            await second
        assert seen == ["third"]

    assert run(body) == 0


def test_expired_waiter_passes_its_turn_on() -> None:
    """`begin` is called when a waiter gets its turn, not while it waits, and not for a delivery that never waited."""

    async def late(turns: PerHostLimit, begun: list[str], name: str) -> None:
        class TooLate(Unconditional):
            def begin(self) -> None:
                begun.append(name)
                raise NotSentError("too late")

        async with turns.take("target", permission=TooLate()):
            begun.append("began")

    async def body(turns: PerHostLimit) -> None:
        end, seen, begun = asyncio.Event(), list[str](), list[str]()
        await late(turns, begun, "alone")
        holder = asyncio.create_task(hold(turns, end, seen))
        await step()
        tasks = [asyncio.create_task(late(turns, begun, name)) for name in "ab"]
        await step()
        assert begun == ["began"]
        last = asyncio.create_task(hold(turns, end, seen, "last"))
        end.set()
        assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [NotSentError] * 2
        await asyncio.gather(holder, last)
        assert (begun, seen) == (["began", "a", "b"], ["first", "last"])

    assert run(body) == 0


def test_no_delivery_waits_until_too_little_time_is_left() -> None:
    """The limit is a third of the stuck timeout, or the rest after the delivery's timeout: here nothing is left."""

    async def main() -> None:
        turns = PerHostLimit(1, stuck_seconds=300.0)
        async with turns.take("target", 300_000):
            with pytest.raises(NotSentError):
                async with turns.take("target", 300_000):
                    raise AssertionError

    asyncio.run(main())
