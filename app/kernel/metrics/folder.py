"""Folder: directory where the processes of one group share metric snapshots, so that each can serve all of them.

A process holds a file lock while it lives, so its death is detected even after kill -9. The counters of ended
processes are summed in one file, so a group's counters never decrease.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from app.kernel import ids
from app.kernel.metrics.merging import lasting, merged, packed, unpacked
from app.kernel.metrics.values import Snapshot

log = logging.getLogger(__name__)

SNAPSHOT, ALIVE, ENDED, NAMES, LOCK = ".json", ".alive", "ended", "endpoints", "turn"
MAX_REMEMBERED = 1000  # ended processes whose files may still exist although their counters were summed
ABANDONED_SECONDS = 60.0  # a younger folder without a live process may belong to a group that is still starting


class Folder:
    """Access of one process to its group's folder; methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = ids.worker_id()
        self._alive: int | None = None

    def join(self) -> None:
        """Create the folder and take this process's file lock."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.leave()
        self._alive = os.open(self.path / f"{self._name}{ALIVE}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Release this process's file lock, which marks it as ended."""
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def stay(self) -> None:
        """Refresh this process's lock file; join the folder if it is missing."""
        try:
            os.utime(self.path / f"{self._name}{ALIVE}")  # the clean-up of abandoned folders skips new files
        except FileNotFoundError:
            self.join()

    def write(self, snapshot: Snapshot) -> None:
        self._replace(f"{self._name}{SNAPSHOT}", packed(snapshot))

    def read(self) -> tuple[list[Snapshot], list[Snapshot]]:
        """Return the newest snapshots of live processes, and the counters of ended processes."""
        # Snapshots are read before the sum: a process that is summed concurrently appears in both and counts once.
        found = {path.stem: _read(path) for path in self.path.glob(f"*{SNAPSHOT}")}
        gone = {name for name in found if name != self._name and not _is_locked(self.path / f"{name}{ALIVE}")}
        added, ended = self._ended()
        unsummed = {name: found[name] for name in found if name not in added}
        alive = [snapshot for name, snapshot in unsummed.items() if snapshot is not None and name not in gone]
        left = [snapshot for name, snapshot in unsummed.items() if snapshot is not None and name in gone]
        if gone:
            self._add_up(gone)
        return alive, [ended, *left]

    def admitted(self, wanted: set[str], most: int) -> tuple[set[str], bool] | None:
        """Give a label of its own to each wanted endpoint, in all processes, until `most` are used.

        Returns the endpoints with a label and whether all labels are used; None while another process holds the lock.
        """
        with self._try_lock() as is_locked:
            if not is_locked:
                return None
            path = self.path / NAMES
            have: list[str] = json.loads(path.read_bytes()) if path.exists() else []
            news = sorted(wanted.difference(have))[: max(0, most - len(have))]
            if news:
                have += news
                self._replace(NAMES, json.dumps(have).encode())
            return set(have), len(have) >= most

    def _add_up(self, gone: set[str]) -> None:
        """Add the counters of ended processes to the sum, and remove their files."""
        with self._try_lock() as is_locked:
            if not is_locked:
                return
            added, ended = self._ended()
            unsummed = sorted(gone.difference(added))
            snapshots = (_read(self.path / f"{name}{SNAPSHOT}") for name in unsummed)
            fresh = [snapshot for snapshot in snapshots if snapshot is not None]
            names = [*added, *unsummed][-MAX_REMEMBERED:]
            text = packed(lasting(merged([], [ended, *fresh]), time.time()))
            self._replace(ENDED, json.dumps({"names": names, "snapshot": text.decode()}).encode())
            for name in gone:
                for path in (*self.path.glob(f"{name}.*"), *self.path.glob(f"*.{name}")):
                    path.unlink(missing_ok=True)

    def _ended(self) -> tuple[dict[str, None], Snapshot]:
        """Return the processes that were summed, oldest first, and the sum."""
        try:
            stored = json.loads((self.path / ENDED).read_bytes())
            return dict.fromkeys(stored["names"]), unpacked(stored["snapshot"].encode())
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}, Snapshot(0.0)

    def _replace(self, name: str, text: bytes) -> None:
        """Replace a file atomically: a reader gets the old or the new content."""
        beside = self.path / f"{name}.{self._name}"
        beside.write_bytes(text)
        beside.replace(self.path / name)

    @contextlib.contextmanager
    def _try_lock(self) -> Iterator[bool]:
        """Try to take the group's lock; never waits, because its holder may be stopped."""
        lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)


def folder_of(role: str, base: Path | None = None) -> Folder:
    """Return the folder of this process's group, which is all children of its parent; remove folders of dead groups.

    Raises OSError when the base folder belongs to another user.
    """
    base = _base() if base is None else base
    parent = os.getppid()
    path = base / f"{role}-{parent}-{_started(parent)}"
    for other in base.iterdir():
        if other != path and _is_abandoned(other):
            shutil.rmtree(other, ignore_errors=True)
    return Folder(path)


def _base() -> Path:
    """Create the folder of all groups of this user, in memory if possible, so that no write waits for a disk."""
    memory = Path("/dev/shm")  # noqa: S108 - the ownership is checked below
    base = (memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())) / f"task-executor-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{base} is not a directory that only this user can access")
    return base


def _is_abandoned(path: Path) -> bool:
    """Return whether all processes of a group and their parent have ended."""
    try:
        _, parent, started = path.name.rsplit("-", 2)
        if parent.isdigit() and started != "0" and _started(int(parent)) == started:
            return False
        if time.time() - path.stat().st_mtime < ABANDONED_SECONDS:
            return False
        return not any(_is_locked(alive) for alive in path.glob(f"*{ALIVE}"))
    except (OSError, ValueError):
        return False


def _is_locked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def _started(process_id: int) -> str:
    """Return the start of a process, in ticks since the boot; 0 where it cannot be read."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return "0"
    return text.rpartition(")")[2].split()[19]


def _read(path: Path) -> Snapshot | None:
    try:
        return unpacked(path.read_bytes())
    except (OSError, ValueError):
        return None
