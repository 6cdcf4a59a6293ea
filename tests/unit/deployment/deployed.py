"""Settings of deployed processes, and pinned versions in files."""

import re
from dataclasses import fields
from pathlib import Path

from app.kernel.config import Settings

ROOT = Path(__file__).parents[3]
READ_SECRETS = {"api", "worker"}
SETTINGS = {item.metadata["env"] for item in fields(Settings)}


def versions(file: str) -> dict[str, str]:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE)
    return {canonical(name): version for name, version in pinned}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
