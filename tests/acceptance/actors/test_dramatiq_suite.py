"""Dramatiq's own tests over TaskExecutorBroker, run where their source is: DRAMATIQ_SOURCE, or Dramatiq's sdist.

Nothing of Dramatiq is copied into this repository. The sdist has no `tests/middleware`; a checkout of its repository
has. `dramatiq_suite/exceptions.txt` lists each test that does not run as it is, with the reason, and
`dramatiq_suite/page.py` writes docs/reference/dramatiq.md from it.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.acceptance.actors.conftest import HERE, ROOT, User
from tests.acceptance.actors.dramatiq_suite.page import PAGE, counts_of, counts_on, exceptions, names_by_file, page_of
from tests.cases import Breaches, choice_of

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only, pytest.mark.timeout(600)]

SUITE = HERE / "dramatiq_suite"
GROUPS = {
    "actors": ["tests/test_actors.py", "tests/test_callbacks.py", "tests/test_composition.py"],
    "results": ["tests/test_results.py", "tests/test_generic_actors.py", "tests/test_stub_broker.py"],
    "limits": [
        *("tests/test_barrier.py", "tests/test_bucket_rate_limiter.py", "tests/test_concurrent_rate_limiter.py"),
        *("tests/test_window_rate_limiter.py", "tests/test_worker.py", "tests/test_messages.py"),
        *("tests/test_encoders.py", "tests/test_broker.py"),
    ],
    "other brokers": ["tests/test_redis.py", "tests/test_rabbitmq.py"],
    "command": ["tests/test_cli.py"],
    "middleware": [
        *("tests/middleware/test_asyncio.py", "tests/middleware/test_prometheus.py"),
        *("tests/middleware/test_retries.py", "tests/middleware/test_shutdown.py"),
        *("tests/middleware/test_threading.py", "tests/middleware/test_time_limit.py"),
    ],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Dramatiq's source, of the installed version."""
    if given := os.environ.get("DRAMATIQ_SOURCE"):
        return Path(given)
    folder = tmp_path_factory.mktemp("sdist")
    wanted = f"dramatiq=={version('dramatiq')}"
    options = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
    pip = subprocess.run([sys.executable, "-m", "pip", "download", "-q", *options, wanted], check=False)
    if pip.returncode:
        if os.environ.get("CI"):
            pytest.fail("pip cannot download Dramatiq's sdist")
        pytest.skip("pip cannot download Dramatiq's sdist; give DRAMATIQ_SOURCE")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def user(shared_user: User) -> User:
    """A user with a web process, a scheduler and a worker; the suite runs the actors itself."""
    shared_user.stack.web()
    shared_user.stack.scheduler()
    shared_user.worker()
    return shared_user


@contextmanager
def suite_in(folder: Path, source: Path) -> Iterator[Path]:
    """Make a folder with Dramatiq's tests and the fixtures of this project; remove it at the end."""
    shutil.copytree(source / "tests", folder / "tests")
    (folder / "tests" / "__init__.py").touch()
    shutil.copy(SUITE / "suite_conftest.py", folder / "tests" / "conftest.py")
    shutil.copy(SUITE / "suite_common.py", folder / "tests" / "common.py")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.sampled
def test_suite_of_dramatiq_passes(source: Path, tmp_path: Path, user: User) -> None:
    """Each run tries a third of the groups, at random, as far as the source has their tests."""
    with Breaches() as breaches:
        for group in choice_of(list(GROUPS), 3):
            with breaches.case(group), suite_in(tmp_path / group, source) as suite:
                files = [name for name in GROUPS[group] if (suite / name).exists()]
                if files:
                    check_group(suite, user, files)


def check_group(suite: Path, user: User, files: list[str]) -> None:
    # Some of these tests bound times of a tenth of a second, so a busy machine may fail them once.
    for again in ([], ["--last-failed"], ["--last-failed"]):
        run = run_suite(suite, user, *again, *files)
        assert " skipped" not in run.stdout.splitlines()[-1], run.stdout[-20_000:]
        if run.returncode == 0:
            return
    pytest.fail(run.stdout[-20_000:])


def run_suite(suite: Path, user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    left_out = [option for each in exceptions() for option in ("--deselect", each.name)]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-W", "ignore"]
    env = {
        **user.env,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "actor_kit"), str(SUITE)]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), user.env["PATH"]]),  # a reload runs `python`
    }
    return subprocess.run(
        [*command, "-rs", "-o", f"cache_dir={suite / 'cache'}", "--timeout", "120", *left_out, *arguments],
        cwd=suite,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_file_of_dramatiq_runs_or_has_a_reason(source: Path) -> None:
    known = {*(each.name for each in exceptions()), *(name for names in GROUPS.values() for name in names)}
    assert names_by_file(source).keys() <= known


def test_every_exception_names_a_test_of_dramatiq(source: Path) -> None:
    found = names_by_file(source)
    tests = [each.name.partition("[")[0].split("::") for each in exceptions() if each.file in found]
    assert [name for name in tests if len(name) == 2 and name[1] not in found[name[0]]] == []


def test_page_counts_every_test(source: Path) -> None:
    """The counts of files that the sdist lacks are compared where DRAMATIQ_SOURCE is a checkout."""
    page = PAGE.read_text()
    assert page == page_of(counts_on(page) | counts_of(source)), (
        f"run python -m {page_of.__module__} with a checkout of Dramatiq"
    )


def test_page_has_every_exception_with_its_reason() -> None:
    page = PAGE.read_text()
    assert page == page_of(counts_on(page))


def test_adapted_tests_name_a_test_of_this_project() -> None:
    assert {each.kind for each in exceptions()} == {"adapted", "not ours"}
    assert all(each.reason for each in exceptions())
    assert {each.kind for each in exceptions() if each.own} == {"adapted"}
    for each in exceptions():
        if each.kind == "adapted":
            file, _, name = each.own.partition("::")
            (path,) = (ROOT / "tests").rglob(file)
            assert f"def {name}(" in path.read_text(), each.own
