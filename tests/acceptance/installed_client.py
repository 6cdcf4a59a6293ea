"""The client's wheel, installed in a separate environment."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from app.dev.stack.stack_client import Api
from tests.acceptance.installing import ISOLATED, ROOT, built, environment_with_extra, libraries_of, unpacked

CALL = """
import sys
from task_executor_client import Client
with Client(sys.argv[1], sys.argv[2]) as te:
    job = te.jobs.create(endpoint="wheel", trigger="IMMEDIATE", input={})
    print(te.wait(job["job_id"], timeout=60)["status"])
    sent = te.send(te.endpoints.get("wheel")["spec"]["url"], {"user": 7}, delay=100)
    print(te.wait(sent["job_id"], timeout=60)["status"])
"""


@dataclass(frozen=True, slots=True)
class InstalledClient:
    """The Python of an environment with the client and its declared dependencies, and the working directory."""

    python: Path
    folder: Path

    @classmethod
    def at(cls, home: Path) -> "InstalledClient":
        """Build the client's wheel from a copy of the sources, and install the wheel."""
        source = shutil.copytree(ROOT / "client", home / "client", ignore=shutil.ignore_patterns("__pycache__"))
        installed = unpacked(home / "installed-client", built(source, home / "wheel-of-client"))
        return cls(environment_with_extra(home / "client-environment", installed), home / "wheel-of-client")

    def check(self, api: Api) -> None:
        """Check that the client creates jobs and waits for them, with only its declared dependencies installed."""
        found = distributions(path=[str(libraries_of(self.python))])
        names = {canonicalize_name(package.metadata["name"]) for package in found}
        assert names == {"task-executor-client", "requests", "certifi", "charset-normalizer", "idna", "urllib3"}
        command = [self.python, "-c", CALL, api.base_url, api.key]
        isolated = os.environ | ISOLATED
        done = subprocess.run(command, cwd=self.folder, env=isolated, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("SUCCESS\nSUCCESS\n", "")
