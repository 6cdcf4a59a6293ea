"""The development stack: it stops every process that it starts, and reports failures."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.dev.process import ports
from app.dev.process.child import Child, ChildError
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import ApiError
from tests.acceptance.dev import page_scripts
from tests.cases import choice_of, each_case
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def stack(database_url: str, tmp_path: Path) -> Iterator[Stack]:
    """The API and a scheduler over the database of the test, on a free port although the requested port is taken."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = other.getsockname()[1]
        commands = programs.whole(workers=0)
        with Stack(
            database_url=database_url, commands=commands, port=taken, env={"TE_WEB_WORKERS": "1"}, logs=tmp_path
        ) as started:
            assert started.port != taken
            yield started


def test_stack_serves_reports_dead_processes_restarts_and_stops_everything(stack: Stack) -> None:
    assert stack.api.get("/jobs") == {"items": [], "cursor": None}
    with pytest.raises(ApiError) as caught:
        stack.api.get("/jobs/job_unheard-of")
    assert (caught.value.status, caught.value.code) == (404, "JOB_NOT_FOUND")

    before = stack.process("web").pid
    assert stack.terminate("web") == 0
    assert ports.is_free(stack.port)
    stack.start_process("web")
    stack.wait_until_ready()
    assert stack.process("web").pid != before

    stack.kill("scheduler-1")
    stack.check()
    restarted = stack.start_process("scheduler-1")
    stack.check()
    os.kill(restarted.pid, signal.SIGKILL)
    restarted.wait(60)
    with pytest.raises(ChildError, match="scheduler-1 ended with status -9"):
        stack.check()

    groups = [stack.process(name).pid for name in stack.names]
    assert len(groups) == 2
    stack.stop()
    for group in groups:
        assert _living_members(group) == []


def test_process_that_cannot_start_is_reported_with_its_output(database_url: str, tmp_path: Path) -> None:
    env = {"TE_CRON_BATCH_SIZE": "many"}
    with pytest.raises(ChildError, match="TE_CRON_BATCH_SIZE"):
        Stack(database_url=database_url, commands={"web": programs.WEB}, env=env, logs=tmp_path).start()


@pytest.mark.sampled
@pytest.mark.timeout(800)
@each_case(
    ("victim", "number", "status"),
    choice_of(
        [
            ("app.dev serve", signal.SIGINT, 0),
            ("app.dev serve", signal.SIGKILL, -signal.SIGKILL),
            ("app.scheduler", signal.SIGKILL, 1),
        ],
        3,
    ),
)
def test_signal_to_serve_or_a_child_ends_every_process_and_its_own_servers(
    victim: str, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    """The signal goes to one process only; before the first signal, blocks of the documents run.

    The blocks need curl, and do not run on a machine without it.
    """
    program = [sys.executable, "-m", "app.dev", "serve"]
    started: dict[int, str] = {}
    output: list[str] = []
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True) as served:
        assert served.stdout is not None
        for line in served.stdout:
            output.append(line)
            if "Ctrl-C stops everything" in line:
                try:
                    if shutil.which("curl") and not any(tmp_path.iterdir()):  # before the first of the signals
                        _run_pages("".join(output), tmp_path)
                finally:  # else the `with` statement would wait for its end
                    started = _descendants(served.pid)
                    processes = {served.pid: "app.dev serve"} | started
                    os.kill(next(pid for pid, command in processes.items() if victim in command), number)
        assert served.wait(60) == status
    names = " ".join(started.values())
    for name in ("postgres", "valkey-server", "tansu", "gunicorn", "dramatiq", "app.scheduler"):
        assert name in names
    # After a SIGKILL no process waits for the children, and each child must end by itself.
    eventually(lambda: not [pid for pid in started if _is_alive(pid)], what="the end of all processes")
    data = re.search(r"postgres -D (\S+)", names)
    assert data
    # Only a later start removes the data of servers that a killed process has left.
    assert status == -signal.SIGKILL or not Path(data[1]).exists()


def _run_pages(printed: str, folder: Path) -> None:
    """Run blocks of README, the tutorials and the how-tos with the printed block alone."""
    block = re.search(r"^export PATH=.*?^te\(\).*?$", printed, re.DOTALL | re.MULTILINE)
    assert block
    page_scripts.run(block[0], folder)


def test_serve_on_a_given_database_exits_non_zero_and_names_the_dead_process(database_url: str) -> None:
    program = [sys.executable, "-m", "app.dev", "serve"]
    env = os.environ | {"TE_DATABASE_URL": database_url}
    output: list[str] = []
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True) as served:
        assert served.stdout is not None
        for line in served.stdout:
            output.append(line)
            if "Ctrl-C stops everything" in line:
                started = _descendants(served.pid)
                os.kill(next(pid for pid, command in started.items() if "app.scheduler" in command), signal.SIGKILL)
        assert served.wait(60) == 1
    assert "scheduler-1 ended with status -9" in "".join(output)
    assert not any("postgres -D" in command for command in started.values())
    assert [pid for pid in started if _is_alive(pid)] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_end_signal_raises_keyboard_interrupt(number: signal.Signals) -> None:
    """TERM and HUP have the effect of INT, and INT works even when the parent process ignored it."""
    program = (
        "import signal, time; from app.dev.interrupt import catch_signals\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_DFL); catch_signals()\n"
        "try:\n print('ready', flush=True)\n while True: time.sleep(0.01)\n"  # pause() misses a signal just before it
        "except KeyboardInterrupt: print('interrupted')"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert (output, process.returncode) == ("interrupted\n", 0)


def test_child_has_its_own_process_group_and_ends_at_term(tmp_path: Path) -> None:
    child = Child("sleeper", ["sleep", "60"], log=tmp_path / "log")
    child.start()
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    assert child.stop(60) == -signal.SIGTERM


def test_ctrl_c_during_imports_prints_no_traceback() -> None:
    program = [sys.executable, "-X", "importtime", "-m", "app.dev", "demo"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        assert any("requests.compat" in line for line in demo.stderr), "the program ended before it imported requests"
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=60)
    assert "interrupted" in output
    assert demo.returncode == 130
    assert "Traceback" not in errors


def _living_members(group: int) -> list[int]:
    return [pid for pid in _processes() if _is_alive(pid) and _stat(pid)[2] == str(group)]


def _descendants(root: int) -> dict[int, str]:
    parents = {pid: int(_stat(pid)[1]) for pid in _processes() if _is_alive(pid)}
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in family - {root}}
    return {pid: path.read_text().replace("\0", " ") for pid, path in commands.items() if path.exists()}


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _is_alive(pid: int) -> bool:
    return _stat(pid)[0] not in {"", "Z"}


def _stat(pid: int) -> list[str]:
    """Return state, parent and group of a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return ["", "0", "0"]
