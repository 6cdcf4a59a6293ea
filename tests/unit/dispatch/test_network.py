"""Turns at a target: in order, not for ever, and not for a process that ends."""

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
    """Use a limit, and return how many targets it still knows afterwards."""

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
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_target_that_nobody_uses_is_forgotten() -> None:
    async def body(turns: PerHostLimit) -> None:
        async with turns.take("a"), turns.take("b"):
            assert turns.targets_in_use == 2

    assert run(body) == 0


def test_turns_come_in_the_order_of_asking_and_never_more_than_allowed() -> None:
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


def test_a_wait_that_is_too_long_defers_the_delivery() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        holder = asyncio.create_task(hold(turns, end, seen))
        await step()
        with pytest.raises(NotSentError) as caught:
            async with turns.take("target"):
                seen.append("second")
        assert (caught.value.put_off_ms, caught.value.is_noted) == (0, False)
        end.set()
        await holder
        assert seen == ["first"]

    assert run(body, patience_seconds=0.0) == 0


def test_nobody_waits_in_a_process_that_ends() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        holder, waiter = (asyncio.create_task(hold(turns, end, seen, name)) for name in ("first", "second"))
        await step()
        turns.drain()
        for waiting in (waiter, hold(turns, end, seen, "third")):
            with pytest.raises(NotSentError) as caught:
                await waiting
            assert caught.value.put_off_ms <= DUE_NOW_MS, "other processes may send it at once"
        end.set()
        await holder
        assert seen == ["first"]

    assert run(body) == 0


def test_a_turn_that_is_passed_to_somebody_who_was_cancelled_goes_to_the_next() -> None:
    async def body(turns: PerHostLimit) -> None:
        end, seen = asyncio.Event(), list[str]()
        end.set()
        async with turns.take("target"):
            second, third = (asyncio.create_task(hold(turns, end, seen, name)) for name in ("second", "third"))
            await step()
        second.cancel()  # its turn has come, but it has not run since
        await third
        with pytest.raises(asyncio.CancelledError):
            await second
        assert seen == ["third"]

    assert run(body) == 0


def test_whose_turn_comes_too_late_passes_it_on() -> None:
    """What must not start any more is asked when it can, and not while it waits; who did not wait is not asked."""

    async def late(turns: PerHostLimit, asked: list[str], name: str) -> None:
        class TooLate(Unconditional):
            def begin(self) -> None:
                asked.append(name)
                raise NotSentError("too late")

        async with turns.take("target", permission=TooLate()):
            asked.append("began")

    async def body(turns: PerHostLimit) -> None:
        end, seen, asked = asyncio.Event(), list[str](), list[str]()
        await late(turns, asked, "alone")
        holder = asyncio.create_task(hold(turns, end, seen))
        await step()
        tasks = [asyncio.create_task(late(turns, asked, name)) for name in "ab"]
        await step()
        assert asked == ["began"]
        last = asyncio.create_task(hold(turns, end, seen, "last"))
        end.set()
        assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [NotSentError] * 2
        await asyncio.gather(holder, last)
        assert (asked, seen) == (["began", "a", "b"], ["first", "last"])

    assert run(body) == 0


def test_nobody_waits_until_too_little_is_left_for_the_delivery() -> None:
    """A third of the stuck timeout, or what it leaves beside the delivery's own timeout: here nothing."""

    async def main() -> None:
        turns = PerHostLimit(1, stuck_seconds=300.0)
        async with turns.take("target", 300_000):
            with pytest.raises(NotSentError):
                async with turns.take("target", 300_000):
                    raise AssertionError

    asyncio.run(main())
