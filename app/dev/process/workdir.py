"""Directories of servers, temporary or kept."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "task-executor-"
_LOCK = ".lock"
_MEMORY = Path("/dev/shm")
_YOUNG_SECONDS = 60  # a directory this young may not have its lock yet


class WorkDir:
    """Directory of one process at a time; a temporary one is deleted by remove().

    After a kill of its owner, a temporary directory is deleted by the next WorkDir in the same parent.
    """

    def __init__(self, purpose: str, parent: Path | None = None, *, keep: Path | None = None) -> None:
        """Initialise; `keep` names a permanent directory, and BlockingIOError says that another process uses it."""
        self._is_kept = keep is not None
        if keep is None:
            parent = parent or Path(tempfile.gettempdir())
            _remove_abandoned(parent)
            keep = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=parent))
        self.path = keep
        keep.mkdir(parents=True, exist_ok=True)
        self._lock = (keep / _LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise

    def remove(self) -> None:
        """Release the directory."""
        self._lock.close()
        if not self._is_kept:
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
