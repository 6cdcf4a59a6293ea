"""Sample of `make test-retries` and `make test-cockroach`: two files pass in both modes at once.

Statements and COMMITs fail at random, on a PostgreSQL that stands in for CockroachDB.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Cluster

ROOT = Path(__file__).parents[2]
SAMPLE = ("tests/integration/executions/test_cancel.py", "tests/contract/store/test_claim.py")
KINDS = {"statement refused", "statement lost", "COMMIT refused", "COMMIT lost", "work repeated"}


@pytest.mark.postgresql_only
def test_sample_passes_as_on_cockroachdb_although_statements_and_commits_fail(cluster: Cluster) -> None:
    options = ["-p", "tests.restarts", "--restarts", "0.2", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *SAMPLE],
        cwd=ROOT,
        env=os.environ | {"TEST_DATABASE_URL": cluster.url, "TEST_AS": "cockroachdb"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "needs a trigger that sleeps" in run.stdout, "the files ran as on PostgreSQL"
    assert {kind for kind in KINDS if re.search(f"'{kind}': [1-9]", run.stdout)} == KINDS, run.stdout
