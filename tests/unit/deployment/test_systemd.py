"""deploy/systemd: units that systemd accepts, with few privileges, and consistent with the product."""

import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import pytest

from app.dev.stack import programs
from app.kernel.config import Settings

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
BIN = "/opt/task-executor/bin/"
DEFAULTS = Settings.from_env({"TE_DATABASE_URL": "postgresql://db/te"})
MOST_EXPOSED = 16  # score in tenths; most of it comes from network access and from raising the limit of open files


class _Unit(RawConfigParser):
    """A unit file; of several values for a name, the last value counts."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
        self.read_string((FOLDER / f"task-executor-{name}.service").read_text())

    def optionxform(self, optionstr: str) -> str:
        return optionstr

    def seconds(self, name: str) -> float:
        return float(self["Service"][name])


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """Copies of the units with paths to existing programs, because systemd checks the programs that a unit starts."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    for name in ("gunicorn", "dramatiq", "python", "flask"):
        (tmp_path / name).symlink_to("/bin/true")
    units = []
    for unit in FOLDER.glob("task-executor*"):
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace(BIN, f"{tmp_path}/"))
    return units


def analyzed(*arguments: str | Path) -> None:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_systemd_accepts_every_unit(installed: list[Path]) -> None:
    assert len(installed) == 5
    analyzed("verify", "--man=no", *installed)


def test_every_service_has_few_privileges(installed: list[Path]) -> None:
    for unit in installed:
        if unit.suffix == ".service":
            analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", unit)


def test_each_unit_starts_its_program_and_has_time_to_stop() -> None:
    expected = {"web": programs.WEB, "scheduler": ("python", "-m", *programs.SCHEDULER), "migrate": programs.MIGRATE}
    expected["worker"] = programs.worker()
    for name, program in expected.items():
        service = _Unit(name)["Service"]
        options = service.get("Environment", "").strip('"').partition("=")[2]
        command = service["ExecStart"].replace("$WORKER_OPTIONS", options)
        assert command.startswith(BIN)
        assert tuple(shlex.split(command.removeprefix(BIN))) == program
        assert service["DynamicUser"] == "yes"
        assert service.get("UnsetEnvironment") == (None if name in {"web", "worker"} else "TE_SECRET_ENCRYPTION_KEY")
    assert _Unit("worker").seconds("TimeoutStopSec") > DEFAULTS.worker_shutdown_timeout_seconds
    assert _Unit("web").seconds("TimeoutStartSec") > DEFAULTS.startup_timeout_seconds
    for name in ("web", "worker", "scheduler"):
        assert _Unit(name)["Service"]["Restart"] == "always", "status 75 needs a restart too"
        assert _Unit(name)["Unit"]["StartLimitIntervalSec"] == "0"
