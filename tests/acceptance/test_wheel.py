"""The wheel, installed alone: it runs the product, which writes no file, and, with its extra, the verifier.

Demo and tests stay out.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import psycopg2
import pytest

from app.dev.process.child import ChildError
from app.dev.process.ports import free_port
from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from tests.acceptance.jobs import deliver_one

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
SOURCES = ["actors", "app", "brokers", "schema", "pyproject.toml", "README.md", "LICENSE"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# Nothing of the checkout may be found by the Python of the wheel.
ALONE = {"PYTHONPATH": ""}


def run(*command: str | Path) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=os.environ | ALONE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources: setuptools leaves files beside them."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    run(*PIP, "wheel", "--no-deps", "--wheel-dir", built, source)
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture
def python(wheel: Path, tmp_path: Path) -> Path:
    """The Python of a new environment that holds the wheel and what all its processes depend on."""
    return environment(tmp_path, f"{wheel}[all]")


def environment(folder: Path, what: str) -> Path:
    """Make an empty environment, install what is asked for, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    install(python, what)
    return python


def install(python: Path, what: str) -> None:
    run(*PIP, "--python", python, "install", "--no-compile", "-c", ROOT / "constraints.txt", what)


@pytest.fixture
def sealed(python: Path, tmp_path: Path) -> Path:
    """The same Python, for which with READ_ONLY nothing below / can be written, as where the image is run read-only.

    That takes a namespace of mounts, which not everybody may make: without it nothing is sealed.
    """
    seal = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
    script = tmp_path / "sealed"
    run_it = f'{shlex.quote(str(python))} "$@"'
    script.write_text(f'#!/bin/sh\n[ -z "$READ_ONLY" ] || exec {shlex.join(seal)} {run_it}\nexec {run_it}\n')
    script.chmod(0o755)
    can_seal = shutil.which("unshare") and not subprocess.run([*seal, "true"], check=False).returncode
    return script if can_seal else python


@pytest.fixture
def stack(sealed: Path, empty_database_url: str, receiver: Receiver, tmp_path: Path) -> Iterator[Stack]:
    """The processes of the wheel, in an empty directory, over an empty database."""
    (tmp_path / "empty").mkdir()
    stack = Stack(
        database_url=empty_database_url,
        commands={},
        env=ALONE | {"TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "5", "READ_ONLY": "1"},
        logs=tmp_path / "logs",
        cwd=tmp_path / "empty",
        python=sealed,
    )
    yield stack
    stack.stop(timeout=0)


def files_of(python: Path) -> set[Path]:
    """List what is installed, but for bytecode."""
    return {path for path in python.parents[1].rglob("*") if "__pycache__" not in path.parts and path.is_file()}


def test_it_holds_the_product_and_what_the_verifier_needs(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if not name.startswith("task_executor-")}
    assert tops == {"actors", "app", "brokers", "schema"}
    development = {name.split("/")[2] for name in names if name.startswith("app/dev/") and name.count("/") > 2}
    assert development == {"process", "receiver", "servers", "stack", "verify"}
    assert "actors/dispatch/xadd_once.lua" in names


def test_it_runs_alone_and_verifies_with_its_extra(
    stack: Stack, python: Path, wheel: Path, database_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    before = files_of(python)
    stack.run(programs.MIGRATE)
    stack.web()
    metrics = f"127.0.0.1:{free_port()}"
    stack.worker()
    stack.scheduler(TE_SCHEDULER_METRICS_ADDR=metrics)
    deliver_one(stack.api, receiver, "wheel")
    stack.check()
    stack.run(("app.metrics.probe", metrics, "--worked-within", "60"))
    assert stack.terminate("worker-1") == 0
    del stack.env["READ_ONLY"]
    with pytest.raises(ChildError, match=r"pip install 'task-executor\[verify\]'"):
        stack.run(("flask", "--app", "app", "verify"))
    with pytest.raises(ChildError, match="need a checkout"):
        stack.run(("app.dev", "demo"))
    assert files_of(python) == before, "nothing is written beside the installed files"

    install(python, f"{wheel}[verify]")
    before = files_of(python)
    stack.env["TE_DATABASE_URL"] = database_url
    assert "Everything holds." in stack.run(
        ("flask", "--app", "app", "verify", "--duration", "2s", "--rate", "5"), timeout=300
    )
    assert files_of(python) == before
    assert list((tmp_path / "empty").iterdir()) == []
    assert left_by_verify(database_url) == {"endpoints": 0, "keys": 0, "schemas": 0}, "only history stays"


# What starts each part, with all that it imports later on, and distributions that only others need.
PARTS = {
    "web": (
        """
import app, app.api.gunicorn_worker, app.api.server
from importlib.metadata import entry_points
app.create_app()
assert [command.load() for command in entry_points(group="flask.commands")]
""",
        {"dramatiq", "confluent-kafka", "apscheduler"},
    ),
    "worker": (
        "import actors, app.metrics.probe, dramatiq.cli",
        {"flask", "gunicorn", "jsonschema", "apscheduler"},
    ),
    "scheduler": (
        "import app.scheduler.__main__, app.metrics.probe",
        {"flask", "jsonschema", "dramatiq", "confluent-kafka", "uvloop"},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_alone_has_all_it_imports_and_nothing_of_the_others(part: str, wheel: Path, tmp_path: Path) -> None:
    program, foreign = PARTS[part]
    python = environment(tmp_path, f"{wheel}[{part}]")
    done = subprocess.run(
        [python, "-c", program],
        cwd=tmp_path,
        env=os.environ | ALONE | {"TE_DATABASE_URL": "cockroachdb://nobody@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (installed,) = python.parents[1].glob("lib/python*/site-packages")
    assert {found.metadata["name"].lower() for found in distributions(path=[str(installed)])} & foreign == set()


def left_by_verify(database_url: str) -> dict[str, int]:
    queries = {
        "endpoints": "SELECT count(*) FROM endpoints WHERE deleted_at IS NULL",
        "keys": "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL",
        "schemas": "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'verify%'",
    }
    found = {}
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        for what, query in queries.items():
            cursor.execute(query)
            found[what] = cursor.fetchall()[0][0]
    return found
