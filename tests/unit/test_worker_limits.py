"""Resource limits of a worker process, and its exit while a DNS lookup hangs."""

import os
import subprocess
import sys

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors import open_files
from app.kernel.config import Settings
from tests.waiting import HUNG_SECONDS

SETTINGS = {"TE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere", "TE_WORKER_MAX_CONCURRENT": "200"}
TLS = {"TE_ACTORS_TLS_ADDR": "h:1"}

WITH_LIMITS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
import actors
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""

WITH_A_HANGING_LOOKUP = """
import asyncio, socket, threading
hangs = threading.Event()
socket.getaddrinfo = lambda *_: hangs.set() or threading.Event().wait()

import actors
from actors.dispatch.resolver import Resolver

async def main():
    resolver = Resolver()
    looking = asyncio.ensure_future(resolver.look_up("example.com", 80))
    await asyncio.to_thread(hangs.wait)
    looking.cancel()
    resolver.stop()

asyncio.run(main())
"""


def run(program: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | SETTINGS | more,
        timeout=HUNG_SECONDS,
    )


def test_soft_limit_of_open_files_is_raised_as_far_as_needed() -> None:
    assert run(WITH_LIMITS.format(soft=100, hard=1200)).stdout == "(1138, 1200)\n"


def test_processes_with_actors_have_descriptors_of_their_own() -> None:
    done = run(WITH_LIMITS.format(soft=100, hard=4000), TE_ACTORS_LISTEN="/tmp/actors")
    assert done.stdout == "(3138, 4000)\n"


def test_files_that_a_worker_asks_for_are_the_files_that_it_gives_to_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings.from_env(SETTINGS | {"TE_ACTORS_LISTEN": "/tmp/actors"} | TLS)
    limits = [(100, 5000)]
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(open_files.resource, "setrlimit", lambda _, found: limits.append(found))
    open_files.ensure_open_files(settings)
    assert limits[-1] == (4650, 5000)
    assert open_files.max_actor_processes(settings) == open_files.ACTOR_PROCESSES


@pytest.mark.parametrize(
    ("files", "tls", "most"),
    [
        (3138, {}, 1000),
        (4650, TLS, 1000),
        (1200, {}, 203),  # half of the files that are left
        (1200, TLS, 135),
        (300, {}, 1),
        (-1, {}, 10_000),
        (10**6, {}, 10_000),
    ],
)
def test_processes_with_actors_leave_the_files_that_deliveries_and_new_connections_need(
    monkeypatch: pytest.MonkeyPatch, files: int, tls: dict[str, str], most: int
) -> None:
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (files, files))
    settings = Settings.from_env(SETTINGS | {"TE_ACTORS_LISTEN": "/tmp/actors"} | tls)
    assert open_files.max_actor_processes(settings) == most


def test_hard_limit_that_just_suffices_is_used_fully() -> None:
    assert run(WITH_LIMITS.format(soft=100, hard=400)).stdout == "(400, 400)\n"


def test_sufficient_soft_limit_stays() -> None:
    assert run(WITH_LIMITS.format(soft=1150, hard=1200)).stdout == "(1150, 1200)\n"


def test_worker_with_a_too_low_hard_limit_does_not_start() -> None:
    done = run(WITH_LIMITS.format(soft=100, hard=300))
    assert (done.returncode, done.stdout) == (1, "")
    assert "TE_WORKER_MAX_CONCURRENT=200" in done.stderr
    assert "RLIMIT_NOFILE" in done.stderr


def test_hanging_lookup_does_not_delay_the_exit_of_the_process() -> None:
    assert run(WITH_A_HANGING_LOOKUP).returncode == 0


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ({"TE_ACTORS_LISTEN": ""}, "TE_ACTORS_TLS_ADDR needs TE_ACTORS_LISTEN"),
        ({"TE_ACTORS_TLS_KEY": ""}, "TE_ACTORS_TLS_ADDR needs TE_ACTORS_TLS_CERT and TE_ACTORS_TLS_KEY"),
        ({}, "TE_ACTORS_TLS_CERT, TE_ACTORS_TLS_KEY: cannot load /no/cert.pem with /no/key.pem"),
    ],
)
def test_worker_without_a_certificate_does_not_listen_by_tls(settings: dict[str, str], fix: str) -> None:
    files = {"TE_ACTORS_TLS_CERT": "/no/cert.pem", "TE_ACTORS_TLS_KEY": "/no/key.pem"}
    given = {"TE_ACTORS_LISTEN": "/tmp/actors", "TE_ACTORS_TLS_ADDR": "127.0.0.1:7420"} | files | settings
    done = run("import actors", **given)
    assert done.returncode == 1
    assert fix in done.stderr
