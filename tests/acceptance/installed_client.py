"""The client's wheel in an environment of its own."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from app.dev.stack.stack_client import Api
from tests.acceptance.installing import ALONE, ROOT, built, environment, libraries_of, with_part

CALL = """
import sys
from task_executor_client import Client
with Client(sys.argv[1], sys.argv[2]) as te:
    job = te.jobs.create(endpoint="wheel", trigger="IMMEDIATE", input={})
    print(te.wait(job["job_id"], timeout=60)["status"])
"""


@dataclass(frozen=True, slots=True)
class InstalledClient:
    """The Python of an environment with the client and what it declares, which runs in a folder."""

    python: Path
    folder: Path

    @classmethod
    def at(cls, home: Path) -> "InstalledClient":
        """Build its wheel, of a copy of the sources, and install that."""
        source = shutil.copytree(ROOT / "client", home / "client", ignore=shutil.ignore_patterns("__pycache__"))
        installed = environment(home / "installed-client", built(source, home / "wheel-of-client"))
        return cls(with_part(home / "caller", installed), home / "wheel-of-client")

    def check(self, api: Api) -> None:
        """Check that it creates a job and waits for its end, with nothing installed but what it declares."""
        found = distributions(path=[str(libraries_of(self.python))])
        names = {canonicalize_name(each.metadata["name"]) for each in found}
        assert names == {"task-executor-client", "requests", "certifi", "charset-normalizer", "idna", "urllib3"}
        command = [self.python, "-c", CALL, api.base_url, api.key]
        alone = os.environ | ALONE
        done = subprocess.run(command, cwd=self.folder, env=alone, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("SUCCESS\n", "")
