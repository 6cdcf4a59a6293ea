"""Earlier commits of this clone: sources of earlier releases."""

import subprocess
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
REVISIONS = Path("schema", "migrations", "versions")


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"needs a clone with its history: {done.stderr.decode()}")
    return done.stdout


def commit_before(revision: str) -> str:
    """Return the commit before the one that added a revision, named by its file."""
    # Follow renames: a revision is renumbered when two branches add the same number.
    added = git("log", "--follow", "--diff-filter=A", "--format=%H", "--", str(REVISIONS / revision)).decode().split()
    return f"{added[-1]}^" if added else "HEAD"


def extract(commit: str, sources: list[str], folder: Path) -> None:
    """Write the files of a commit."""
    with ZipFile(BytesIO(git("archive", "--format=zip", commit, *sources))) as archive:
        archive.extractall(folder)
