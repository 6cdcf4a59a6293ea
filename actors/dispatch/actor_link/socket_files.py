"""Files of the Unix sockets at which workers listen for processes that run actors."""

import contextlib
import logging
import socket
from pathlib import Path

log = logging.getLogger(__name__)

SUFFIX = ".sock"


def make_directory(directory: Path, *, is_shared: bool) -> None:
    """Create the directory of the sockets; the mode of an existing one belongs to the operator."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755 if is_shared else 0o700)
    elif is_shared and directory.stat().st_mode & 0o005 != 0o005:
        log.warning("users of TE_ACTORS_ALLOW may not find the sockets in %s: chmod o+rx %s", directory, directory)


def remove_left_sockets(directory: Path) -> None:
    """Remove the sockets of dead workers, where nothing listens."""
    for path in directory.glob(f"*{SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.settimeout(1.0)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
