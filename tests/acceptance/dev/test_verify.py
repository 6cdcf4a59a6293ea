"""The command `flask --app app verify`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

VERIFY = [sys.executable, "-m", "flask", "--app", "app", "verify"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}


def verify(*options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VERIFY, *options], env=env or CLEAN, text=True, capture_output=True, check=False, timeout=380
    )


def test_all_checks_hold_under_all_faults(tmp_path: Path) -> None:
    """The test takes up to two minutes, because a cron job ticks at the full minute."""
    files = ["--json", str(tmp_path / "report.json"), "--junit", str(tmp_path / "report.xml")]
    done = verify("--duration", "25s", "--rate", "15", "--seed", "4", "--all", "--open-deliveries", "200", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
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
    assert ET.parse(tmp_path / "report.xml").getroot().get("failures") == "0"
    assert "accepted" in done.stdout, "progress is missing"


def test_ctrl_c_ends_the_verification_cleanly() -> None:
    with subprocess.Popen(
        [*VERIFY, "--duration", "1h"], stdout=subprocess.PIPE, env=CLEAN, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        output = ""
        for line in running.stdout:
            # Send one Ctrl-C only: a second would interrupt the shutdown.
            if "creating jobs" in line and "creating jobs" not in output:
                running.send_signal(signal.SIGINT)
            output += line
        assert running.wait(60) == 130
    assert "all processes and servers are stopped" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("options", "database_url", "words"),
    [
        (["--duration", "ten"], None, "is not a duration"),
        (["--partition"], "postgresql://nobody@127.0.0.1:1/none", "need the PostgreSQL that verify starts itself"),
        ([], "postgresql://nobody:hunter2@127.0.0.1:1/none", "The database cannot be reached"),
    ],
)
def test_verification_that_cannot_run_is_a_short_error(
    options: list[str], database_url: str | None, words: str
) -> None:
    done = verify(*options, env=CLEAN | ({"TE_DATABASE_URL": database_url} if database_url else {}))
    assert done.returncode not in {0, 1} or "Error:" in done.stderr
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
