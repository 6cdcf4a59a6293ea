"""DNS lookups that hang delay other names neither for long nor for ever."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.resolver import THREADS, THREADS_PER_ZONE, Resolver

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]


class NameServers:
    """Stand-in for the system's resolver: names that begin with `hang` get no answer before `gives_up`."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.was_asked = threading.Event()
        self.gives_up = threading.Event()

    def __call__(self, host: str, *_: Any) -> list[Any]:
        self.asked[host] += 1
        self.was_asked.set()
        if host.startswith("hang"):
            assert self.gives_up.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return FOUND


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServers]:
    servers = NameServers()
    monkeypatch.setattr(socket, "getaddrinfo", servers)
    yield servers
    servers.gives_up.set()


class Clock:
    """A clock that stands still until the test advances it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def hanging(resolver: Resolver, servers: NameServers, *names: str) -> list["asyncio.Task[Any]"]:
    """Look names up, and return once the lookups have started, so that later lookups come after them."""
    tasks = [asyncio.create_task(resolver.look_up(name, 80)) for name in names]
    await asyncio.sleep(0)
    return tasks


async def end(tasks: list["asyncio.Task[Any]"], servers: NameServers) -> list[BaseException]:
    servers.gives_up.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in ended} == {socket.gaierror}
    return ended


def test_hanging_names_of_a_zone_leave_threads_to_other_names(servers: NameServers) -> None:
    async def main() -> None:
        resolver = Resolver()
        tasks = await hanging(resolver, servers, *(f"hang{number}.slow.example" for number in range(2 * THREADS)))
        assert await resolver.look_up("ok.example.org", 443) == [(*FOUND[0][:4], ("192.0.2.1", 443))]
        assert sum(count for name, count in servers.asked.items() if name.startswith("hang")) <= THREADS_PER_ZONE
        await end(tasks, servers)
        assert sum(servers.asked.values()) == 2 * THREADS + 1, "each name must be looked up"
        resolver.stop()

    asyncio.run(main())


def test_hanging_name_holds_one_thread_for_any_number_of_waiting_lookups(servers: NameServers) -> None:
    async def main() -> None:
        resolver = Resolver()
        tasks = await hanging(resolver, servers, *["hang.example"] * 500)
        assert await resolver.look_up("ok.example", 80)
        await end(tasks, servers)
        assert servers.asked == {"hang.example": 1, "ok.example": 1}
        resolver.stop()

    asyncio.run(main())


def test_cancelled_lookup_cancels_no_other_lookup(servers: NameServers) -> None:
    """A queued name without waiting lookups is never looked up."""

    async def main() -> None:
        resolver = Resolver()
        first, second = await hanging(resolver, servers, *["hang.slow.example"] * 2)
        others = await hanging(resolver, servers, *(f"hang{number}.slow.example" for number in range(THREADS_PER_ZONE)))
        for task in (first, *others):
            task.cancel()
        await asyncio.gather(first, *others, return_exceptions=True)
        await end([second], servers)
        await resolver.look_up("ok.example", 80)
        assert len(servers.asked) == THREADS_PER_ZONE + 1, "the last of the cancelled names must not be looked up"
        resolver.stop()

    asyncio.run(main())


@pytest.mark.parametrize(("took", "is_remembered"), [(0.5, False), (10.0, True)])
def test_slow_failure_is_remembered_for_as_long_as_it_took(
    servers: NameServers, took: float, is_remembered: bool
) -> None:
    async def main() -> None:
        clock = Clock()
        resolver = Resolver(clock)
        tasks = await hanging(resolver, servers, "hang.example")
        await asyncio.to_thread(servers.was_asked.wait, 60)
        clock.now += took
        await end(tasks, servers)
        with pytest.raises(socket.gaierror):
            await resolver.look_up("HANG.example", 80)
        assert servers.asked["hang.example"] == 2 - is_remembered
        clock.now += took
        with pytest.raises(socket.gaierror):
            await resolver.look_up("hang.example", 80)
        assert servers.asked["hang.example"] == 3 - is_remembered
        resolver.stop()

    asyncio.run(main())
