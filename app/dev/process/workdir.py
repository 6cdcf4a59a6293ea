"""Temporary directories that outlive nobody."""

import fcntl
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "task-executor-"
_LOCK = ".lock"
_YOUNG_SECONDS = 60  # a directory this young may not have its lock yet


class WorkDir:
    """A temporary directory, removed by remove() or, when its owner was killed, by the next one that is made."""

    def __init__(self, purpose: str) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
        self._lock = (self.path / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                with path.open("r") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # in use, another user's, or already gone
            continue
