"""Directories of servers, temporary or kept."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Protocol

_PREFIX = "task-executor-"
_LOCK = ".lock"
_MEMORY = Path("/dev/shm")
_YOUNG_SECONDS = 60  # a directory this young may not have its lock yet


class Directory(Protocol):
    """Directory that one server uses at a time."""

    path: Path

    def remove(self) -> None:
        """Release the directory."""


class KeptDir:
    """Permanent directory; raises BlockingIOError while another process uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._lock = (path / _LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise

    def remove(self) -> None:
        self._lock.close()


class WorkDir:
    """Temporary directory, removed by remove(), or after a kill of its owner by the next WorkDir in the same parent."""

    def __init__(self, purpose: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=parent))
        self._lock = (self.path / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def memory(least_bytes: int) -> Path | None:
    """Return an executable directory in memory with enough free space, or None."""
    try:
        room = os.statvfs(_MEMORY)
    except OSError:
        return None
    if room.f_flag & os.ST_NOEXEC or room.f_bavail * room.f_frsize < least_bytes:
        return None
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                with path.open("r") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # in use, another user's, or already gone
            continue
