"""Folder: where the processes of one group leave what they have counted, so that any of them can tell it all.

A process holds the lock on one of its two files for as long as it lives: after kill -9 too, others know. The counts of
those that have ended are added up in one file: what a group has counted never becomes less.
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

SNAPSHOT, ALIVE, ENDED, NAMES, TURN = ".json", ".alive", "ended", "endpoints", "turn"
MOST_REMEMBERED = 1000  # processes whose files may still be there although they were added up
ABANDONED_SECONDS = 60.0  # a folder without a live process may be that of a group which is about to start one


class Folder:
    """The folder of one group, as one of its processes sees it; what it raises is OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = ids.worker_id()
        self._alive: int | None = None

    def join(self) -> None:
        """Make the folder, and show that this process lives."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.leave()
        self._alive = os.open(self.path / f"{self._name}{ALIVE}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Show that this process has ended."""
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def stay(self) -> None:
        """Show that this process still lives; the first time it joins."""
        try:
            os.utime(self.path / f"{self._name}{ALIVE}")  # who cleans up spares what is new
        except FileNotFoundError:
            self.join()

    def write(self, snapshot: Snapshot) -> None:
        """Leave the newest snapshot of this process."""
        self._replace(f"{self._name}{SNAPSHOT}", packed(snapshot))

    def read(self) -> tuple[list[Snapshot], list[Snapshot]]:
        """Return the newest snapshots of the live processes, and what those have counted that have ended."""
        # In this order: whoever is added up meanwhile is found in both, and counted once.
        found = {path.stem: _read(path) for path in self.path.glob(f"*{SNAPSHOT}")}
        gone = {name for name in found if name != self._name and self._has_ended(name)}
        added, ended = self._ended()
        alive = [one for name, one in found.items() if one is not None and name not in gone and name not in added]
        left = [one for name, one in found.items() if one is not None and name in gone and name not in added]
        if gone:
            self._add_up(gone)
        return alive, [ended, *left]

    def admitted(self, wanted: set[str], most: int) -> tuple[set[str], bool] | None:
        """Let the first endpoints that come have labels in all processes; None while another process decides.

        Returns which have one, and whether no other can get one.
        """
        with self._turn() as is_ours:
            if not is_ours:
                return None
            path = self.path / NAMES
            have: list[str] = json.loads(path.read_bytes()) if path.exists() else []
            news = sorted(wanted.difference(have))[: max(0, most - len(have))]
            if news:
                have += news
                self._replace(NAMES, json.dumps(have).encode())
            return set(have), len(have) >= most

    def _add_up(self, gone: set[str]) -> None:
        """Add what processes have counted that have ended to the one file, and remove theirs."""
        with self._turn() as is_ours:
            if not is_ours:
                return
            added, ended = self._ended()
            fresh = [
                one for name in gone.difference(added) if (one := _read(self.path / f"{name}{SNAPSHOT}")) is not None
            ]
            names = [*added, *sorted(gone.difference(added))][-MOST_REMEMBERED:]
            text = packed(lasting(merged([], [ended, *fresh]), time.time()))
            self._replace(ENDED, json.dumps({"names": names, "snapshot": text.decode()}).encode())
            for name in gone:
                for path in (*self.path.glob(f"{name}.*"), *self.path.glob(f"*.{name}")):
                    path.unlink(missing_ok=True)

    def _ended(self) -> tuple[dict[str, None], Snapshot]:
        """Return who was added up, in that order, and the sum."""
        try:
            told = json.loads((self.path / ENDED).read_bytes())
            return dict.fromkeys(told["names"]), unpacked(told["snapshot"].encode())
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}, Snapshot(0.0)

    def _has_ended(self, name: str) -> bool:
        return not _is_locked(self.path / f"{name}{ALIVE}")

    def _replace(self, name: str, text: bytes) -> None:
        """Write a file as a whole: whoever reads it finds the old one or the new one."""
        beside = self.path / f"{name}.{self._name}"
        beside.write_bytes(text)
        beside.replace(self.path / name)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[bool]:
        """Try to be the only one; never waits, because who has the turn may stand still."""
        turn = os.open(self.path / TURN, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(turn)


def folder_of(role: str, base: Path | None = None) -> Folder:
    """Return the folder of the group that this process belongs to: that of its parent; removes those of dead groups.

    Raises OSError when it would lie in a folder that belongs to another user.
    """
    base = _base() if base is None else base
    parent = os.getppid()
    path = base / f"{role}-{parent}-{_started(parent)}"
    for other in base.iterdir():
        if other != path and _is_abandoned(other):
            shutil.rmtree(other, ignore_errors=True)
    return Folder(path)


def _base() -> Path:
    """Make the folder of all groups of this user, in memory if possible: nothing shall wait for a disk."""
    memory = Path("/dev/shm")  # noqa: S108 - what follows makes sure that it is this user's own
    place = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    base = place / f"task-executor-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{base} is not a folder of this user alone")
    return base


def _is_abandoned(path: Path) -> bool:
    """Return whether no process of a group lives, nor the parent that could start one."""
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
    """Return when a process was started, in ticks since the boot; 0 where that cannot be read."""
    try:
        told = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return "0"
    return told.rpartition(")")[2].split()[19]


def _read(path: Path) -> Snapshot | None:
    try:
        return unpacked(path.read_bytes())
    except (OSError, ValueError):
        return None
