"""Peer: process and user behind the connection of a Unix socket."""

import asyncio
import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def peer_of(transport: asyncio.BaseTransport) -> tuple[int | None, int | None]:
    """Return pid and user id of the process behind a Unix socket; None where the system does not report them."""
    peer = transport.get_extra_info("socket")
    option = getattr(socket, "SO_PEERCRED", None)
    if peer is None or option is None:
        return None, None
    pid, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return (pid or None), uid


def is_allowed(uid: int | None) -> bool:
    """Return whether a user may run actors here: the user of the worker, and root."""
    return uid is None or uid in {0, os.geteuid()}
