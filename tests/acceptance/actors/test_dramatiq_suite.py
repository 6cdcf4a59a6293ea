"""Dramatiq's own tests over TaskExecutorBroker, run where their source is: DRAMATIQ_SOURCE, or Dramatiq's sdist.

Nothing of Dramatiq is copied into this repository. The sdist has no `tests/middleware`; a checkout of its repository
has. `dramatiq_suite/exceptions.txt` lists each test that does not run as it is, with the reason.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.acceptance.actors.conftest import HERE, ROOT, User

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only, pytest.mark.timeout(600)]

SUITE = HERE / "dramatiq_suite"
GROUPS = {
    "actors": ["tests/test_actors.py", "tests/test_callbacks.py", "tests/test_composition.py"],
    "results": ["tests/test_results.py", "tests/test_generic_actors.py", "tests/test_stub_broker.py"],
    "limits": [
        *("tests/test_barrier.py", "tests/test_bucket_rate_limiter.py", "tests/test_concurrent_rate_limiter.py"),
        *("tests/test_window_rate_limiter.py", "tests/test_worker.py", "tests/test_messages.py"),
        "tests/test_encoders.py",
    ],
    "middleware": [
        *("tests/middleware/test_asyncio.py", "tests/middleware/test_prometheus.py"),
        *("tests/middleware/test_retries.py", "tests/middleware/test_shutdown.py"),
        *("tests/middleware/test_threading.py", "tests/middleware/test_time_limit.py"),
    ],
}


def exceptions() -> dict[str, tuple[str, str]]:
    """Return kind and reason of each test or file that does not run as it is."""
    lines = (SUITE / "exceptions.txt").read_text().splitlines()
    parts = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {name: (kind, reason) for name, kind, reason in parts}


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


@pytest.fixture
def suite(source: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with Dramatiq's tests and the fixtures of this project."""
    folder = tmp_path / "suite"
    shutil.copytree(source / "tests", folder / "tests")
    (folder / "tests" / "__init__.py").touch()
    shutil.copy(SUITE / "suite_conftest.py", folder / "tests" / "conftest.py")
    shutil.copy(SUITE / "suite_common.py", folder / "tests" / "common.py")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("group", GROUPS)
def test_suite_of_dramatiq_passes(group: str, suite: Path, user: User) -> None:
    files = [name for name in GROUPS[group] if (suite / name).exists()]
    if not files:
        pytest.skip("the sdist has no such tests; give DRAMATIQ_SOURCE, a checkout")
    # Some of these tests bound times of a tenth of a second, so a busy machine may fail them once.
    for again in ([], ["--last-failed"], ["--last-failed"]):
        run = run_suite(suite, user, *again, *files)
        if run.returncode == 0:
            return
    pytest.fail(run.stdout[-20_000:])


def run_suite(suite: Path, user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    left_out = [option for name in exceptions() for option in ("--deselect", name)]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-W", "ignore"]
    env = {**user.env, "PYTHONPATH": os.pathsep.join([str(ROOT / "actor_kit"), str(SUITE)])}
    return subprocess.run(
        [*command, "-o", f"cache_dir={suite / 'cache'}", "--timeout", "120", *left_out, *arguments],
        cwd=suite,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_file_of_dramatiq_runs_or_has_a_reason(source: Path) -> None:
    known = {*exceptions(), *(name for names in GROUPS.values() for name in names)}
    found = {str(path.relative_to(source)) for path in (source / "tests").rglob("test_*.py")}
    assert found <= known


def test_every_exception_has_a_kind_and_a_reason() -> None:
    assert {kind for kind, _ in exceptions().values()} == {"adapted", "not ours"}
    assert all(reason for _, reason in exceptions().values())
