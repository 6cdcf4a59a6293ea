"""Sample of `make test-retries`: one file passes although statements and COMMITs fail at random."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Cluster

ROOT = Path(__file__).parents[2]
SAMPLE = "tests/integration/executions/test_cancel.py"
KINDS = {"statement refused", "statement lost", "COMMIT refused", "COMMIT lost"}


@pytest.mark.postgresql_only
def test_requests_succeed_although_statements_and_commits_fail(cluster: Cluster) -> None:
    options = ["-p", "tests.restarts", "--restarts", "0.2", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, SAMPLE],
        cwd=ROOT,
        env=os.environ | {"TEST_DATABASE_URL": cluster.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert {kind for kind in KINDS if re.search(f"'{kind}': [1-9]", run.stdout)} == KINDS, run.stdout
