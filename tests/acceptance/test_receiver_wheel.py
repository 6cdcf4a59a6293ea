"""The receiver's wheel, in an environment without any other distribution."""

import os
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path

from tests.acceptance.installing import ISOLATED, ROOT, built, libraries_of, unpacked

VERIFY = """
from task_executor_receiver import VerificationError, Verifier
try:
    Verifier(["whsec_bm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5u"]).verify([("webhook-id", "exec_1")], b"{}")
except VerificationError as error:
    print(error)
"""


def test_receiver_runs_without_other_distributions(tmp_path: Path) -> None:
    source = shutil.copytree(ROOT / "receiver", tmp_path / "receiver", ignore=shutil.ignore_patterns("__pycache__"))
    python = unpacked(tmp_path / "environment", built(source, tmp_path / "wheel"))
    installed = distributions(path=[str(libraries_of(python))])
    assert [found.metadata["name"] for found in installed] == ["task-executor-receiver"]
    command, isolated = [python, "-c", VERIFY], os.environ | ISOLATED
    done = subprocess.run(command, cwd=tmp_path, env=isolated, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("the header webhook-timestamp is missing\n", "")
