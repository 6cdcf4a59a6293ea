"""The wheel with each of its extras: each process runs in a separate environment, and writes no file.

Another extra runs the verifier, with all faults. The wheel contains no demo and no tests. Client and receiver have
wheels of their own.
"""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from xml.etree import ElementTree as ET
from zipfile import ZipFile

import grimp
import pytest
from cryptography.fernet import Fernet

from app.dev.process.child import Child, ChildError
from app.dev.process.ports import free_port
from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.installed_client import InstalledClient
from tests.acceptance.installing import (
    ISOLATED,
    ROOT,
    SOURCES,
    built,
    environment_with_extra,
    installed_by_pip,
    libraries_of,
)
from tests.acceptance.jobs import deliver_one, wait_for_end
from tests.parts import PACKAGES, PARTS, PROBE, imports_of, modules_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

# Distributions that only other parts need.
FOREIGN = {
    "web": {"dramatiq", "confluent-kafka", "apscheduler", "httptools", "uvloop"},
    "worker": {"flask", "gunicorn", "werkzeug", "apscheduler", "cronsim"},
    "scheduler": {"flask", "gunicorn", "werkzeug", "dramatiq", "confluent-kafka", "uvloop", "httptools"},
}
# Like the container image: an unprivileged user and a read-only file system. The process may read all files, because
# Python can be in the home directory of root.
SEALED = """
unshare --mount sh -c 'mount -o remount,bind,ro / && exec "$@"' sh
setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --pdeathsig=TERM
--bounding-set=-all,+dac_read_search --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A temporary folder that every user can read."""
    with tempfile.TemporaryDirectory(prefix="te-wheel-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def wheel(home: Path) -> Path:
    source = home / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    return built(source, home / "wheel")


@pytest.fixture(scope="module")
def pythons(home: Path, wheel: Path) -> dict[str, Path]:
    """The Python of an environment for each part and for the verifier."""
    installed = installed_by_pip(home / "installed", wheel)
    return {part: environment_with_extra(home / part, installed, part) for part in (*PARTS, "verify")}


@pytest.fixture(scope="module")
def client(home: Path) -> InstalledClient:
    return InstalledClient.at(home)


@pytest.fixture(scope="module")
def sealed(home: Path, pythons: dict[str, Path]) -> dict[str, Path]:
    """The Pythons restricted by SEALED; without Linux and root, the unrestricted Pythons."""
    seal = shlex.split(SEALED)
    can_seal = shutil.which("setpriv") and not subprocess.run([*seal, "true"], check=False, cwd=home).returncode
    if not can_seal:
        return pythons
    scripts = {}
    for part, python in pythons.items():
        scripts[part] = home / f"{part}-sealed"
        scripts[part].write_text(f'#!/bin/sh\nexec {shlex.join(seal)} {shlex.quote(str(python))} "$@"\n')
        scripts[part].chmod(0o755)
    return scripts


@pytest.fixture
def stacks(sealed: dict[str, Path], empty_database_url: str, home: Path, tmp_path: Path) -> Iterator[dict[str, Stack]]:
    """The processes of each part, in an empty directory, over one empty database."""
    empty = home / "empty"
    empty.mkdir(mode=0o755)
    env = {"TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "10", "TE_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
    stacks = {
        part: Stack(
            database_url=empty_database_url,
            commands={},
            env=ISOLATED | env,
            logs=tmp_path / part,
            cwd=empty,
            python=sealed[part],
        )
        for part in PARTS
    }
    yield stacks
    for stack in stacks.values():
        stack.stop(timeout=0)
    assert list(empty.iterdir()) == []


@dataclass(frozen=True, slots=True)
class Run:
    """A verification in a separate environment, run in the background because it waits for the minute of a cron job."""

    process: Child
    python: Path
    installed: set[Path]
    reports: Path


@pytest.fixture(scope="module")
def verification(pythons: dict[str, Path], home: Path) -> Iterator[Run]:
    python, empty, reports = pythons["verify"], home / "verified", home / "reports"
    empty.mkdir()
    reports.mkdir()
    files = ["--json", str(reports / "report.json"), "--junit", str(reports / "report.xml")]
    options = ["--duration", "25s", "--rate", "8", "--seed", "4", "--all", "--open-deliveries", "60", *files]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}
    process = Child(
        "verify",
        [str(python), "-m", "flask", "--app", "app", "verify", *options],
        log=home / "verify.log",
        env=clean | ISOLATED,
        cwd=empty,
    )
    run = Run(process, python, files_of(python), reports)
    process.start()
    yield run
    process.kill()
    assert list(empty.iterdir()) == []


def files_of(python: Path) -> set[Path]:
    """Return all installed files except bytecode."""
    return {path for path in python.parents[1].rglob("*") if "__pycache__" not in path.parts and path.is_file()}


def test_wheel_contains_the_product_and_the_modules_of_the_verifier(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if not name.startswith("task_executor-")}
    assert tops == {"actors", "app", "brokers", "schema"}
    development = {name.split("/")[2] for name in names if name.startswith("app/dev/") and name.count("/") > 2}
    assert development == {"process", "receiver", "servers", "stack", "testing", "verify"}
    assert "actors/dispatch/xadd_once.lua" in names
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "schema").rglob("*.sql")} <= set(names)


@pytest.mark.usefixtures("verification")
def test_each_process_runs_with_its_own_extra_and_writes_no_file(
    stacks: dict[str, Stack], pythons: dict[str, Path], client: InstalledClient, receiver: Receiver
) -> None:
    before = {part: files_of(python) for part, python in pythons.items()}
    web, worker, scheduler = stacks["web"], stacks["worker"], stacks["scheduler"]
    web.run(programs.MIGRATE)
    web.web()
    metrics_address = f"127.0.0.1:{free_port()}"
    scheduler.scheduler(TE_SCHEDULER_METRICS_ADDR=metrics_address)
    worker.worker(TE_WORKER_METRICS_ADDR=f"127.0.0.1:{free_port()}")
    deliver_one(web.api, receiver, "wheel")
    client.check(web.api)
    eventually(lambda: is_healthy(scheduler, metrics_address), what="a scheduler whose chores have run")
    with pytest.raises(ChildError, match=r"pip install 'task-executor\[verify\]'"):
        web.run(("flask", "--app", "app", "verify"))
    with pytest.raises(ChildError, match="need a checkout"):
        web.run(("app.dev", "demo"))

    execution = begin_slow(web.api, receiver)
    assert worker.terminate("worker-1") == 0
    assert wait_for_end(web.api, execution)["status"] == "SUCCESS", "the worker ended before its delivery"
    assert scheduler.terminate("scheduler-1") == 0
    assert web.terminate("web") == 0
    assert {part: files_of(python) for part, python in pythons.items()} == before, (
        "a process wrote a file in its environment"
    )


def is_healthy(scheduler: Stack, metrics_address: str) -> bool:
    """Return the result of the health probe: false until the scheduler listens and has run its chores."""
    try:
        scheduler.run((PROBE, metrics_address, "--worked-within", "60"))
    except ChildError:
        scheduler.check()
        return False
    return True


def begin_slow(api: Api, receiver: Receiver) -> str:
    """Create a job with a delivery of 1 s, wait until the delivery starts, and return the execution id."""
    path = "/slow/1000/wheel"
    api.post("/endpoints", {"name": "slow", "type": "HTTP", "spec": {"url": receiver.base_url + path}})
    created = api.post("/jobs", {"endpoint": "slow", "trigger": "IMMEDIATE", "idempotency_key": "slow", "input": {}})
    receiver.wait_for(1, path=path)
    return str(created["execution"]["execution_id"])


IMPORT_ALL = """
import sys
from importlib import import_module
modules = [import_module(name) for name in sys.argv[1:]]
"""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return imports_of(*PACKAGES)


@pytest.mark.parametrize("part", PARTS)
def test_environment_of_a_part_has_all_its_imports_and_no_foreign_distribution(
    part: str, pythons: dict[str, Path], graph: grimp.ImportGraph, home: Path
) -> None:
    """The imports include imports inside functions, at any depth."""
    modules = modules_of(part, graph)
    assert not {module for module in modules if module.startswith("app.dev")}
    done = subprocess.run(
        [pythons[part], "-c", IMPORT_ALL, *sorted(modules)],
        cwd=home,
        env=os.environ | ISOLATED | {"TE_DATABASE_URL": "cockroachdb://nobody@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    installed = distributions(path=[str(libraries_of(pythons[part]))])
    assert {found.metadata["name"].lower() for found in installed} & FOREIGN[part] == set()


def test_verifier_runs_with_its_extra_and_all_checks_hold_under_all_faults(verification: Run) -> None:
    """The test takes up to two minutes, because a cron job ticks at the full minute."""
    assert verification.process.wait(380) == 0, verification.process.tail()
    assert files_of(verification.python) == verification.installed
    report = json.loads((verification.reports / "report.json").read_text())
    assert report["holds"] is True
    assert set(report["arrivals"]) == {"HTTP", "KAFKA", "REDIS_STREAM"}
    assert set(report["jobs"]) == {"IMMEDIATE", "DELAYED", "CRON", "INTERVAL"}
    assert {"read-only", "a row locked", "restart under open deliveries"} <= set(report["faults"])
    assert {"jobs for a receiver that hangs", "next step of a key rotation"} <= set(report["faults"])
    assert any("restarts of the database" in note for note in report["notes"]), report["notes"]
    assert any("pauses and resumes" in note for note in report["notes"]), report["notes"]
    assert report["changes_of_state"] > report["attempts"]
    assert report["changes_of_breakers"] > 0, "no breaker changed its state"
    assert report["repeated_deliveries"]["CONNECTION_ERROR"] > 0, "no receiver lost a response"
    assert all(report["judged"].values()), report["judged"]
    assert ET.parse(verification.reports / "report.xml").getroot().get("failures") == "0"
    output = verification.process.log.read_text()
    assert "accepted" in output, "progress is missing"
    assert "All checks hold." in output
    assert "not removed" not in output, "the verification left more than history"
