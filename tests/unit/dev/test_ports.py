"""Free ports: no two processes choose the same port while its server starts."""

import subprocess
import sys

from app.dev.process.ports import free_port


def test_port_that_another_process_has_chosen_is_not_chosen() -> None:
    chosen = free_port()
    program = f"from app.dev.process.ports import free_port; print(free_port({chosen}))"
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(there.stdout) != chosen


def test_chosen_port_is_free_for_its_server_only_once() -> None:
    chosen = free_port()
    assert free_port(chosen) != chosen


def test_reservations_are_few_and_closed() -> None:
    """An open socket that nobody closes is an error of the tests, at the end of the process, too."""
    count = "psutil.Process().num_fds()"
    program = f"import psutil; from app.dev.process.ports import free_port; before = {count}"
    program += "; [free_port() for _ in range(70)]"
    there = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{program}; print({count} - before)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (int(there.stdout), there.stderr) == (50, "")


def test_invalid_preferred_port_yields_a_valid_free_port() -> None:
    assert free_port(99_999) < 65_536
