"""Settings of deployed processes, and pinned versions in files."""

import re
from dataclasses import fields
from pathlib import Path

from app.kernel.config import Settings

ROOT = Path(__file__).parents[3]
READ_SECRETS = {"api", "worker"}
# Locked and not installed by the tests: pip builds the project by the first, and only Python before 3.11.3, such as
# Debian 12's, needs the second.
NOT_INSTALLED = {"setuptools", "async-timeout"}
SETTINGS = {item.metadata["env"] for item in fields(Settings)}


def versions(file: str) -> dict[str, str]:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE)
    return {canonical(name): version for name, version in pinned}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
