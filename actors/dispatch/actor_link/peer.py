"""Peer: process, user and group, or API key, behind a connection, and the peers that may run actors."""

import asyncio
import grp
import os
import pwd
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from app.kernel.access.key_ring import Key
from app.kernel.config import SettingError

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
ROOT = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """Credentials of a process when it connected; None where the system does not report them.

    A connection from another machine has its API key only.
    """

    pid: int | None
    uid: int | None
    gid: int | None
    key: Key | None = None

    @property
    def key_id(self) -> str | None:
        return None if self.key is None else self.key.key_id

    def is_owner_like(self, other: "Peer") -> bool:
        """Return whether another peer has the same user, or the same key."""
        return (self.uid, self.key_id) == (other.uid, other.key_id)

    def may_work(self, queue: str) -> bool:
        """Return whether it may run the actors of a Dramatiq queue; a user of this host may run all."""
        return self.key is None or self.key.may_work(queue)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the process behind a connection."""
    connection = transport.get_extra_info("socket")
    option = getattr(socket, "SO_PEERCRED", None)
    if connection is None or option is None:
        return Peer(None, None, None)
    pid, uid, gid = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return Peer(pid or None, uid, gid)


@dataclass(frozen=True, slots=True)
class AllowedPeers:
    """Users and groups that may run actors, besides root and the user of the worker."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> "AllowedPeers":
        """Look up users, and groups after `%`, by name or number; raises SettingError for an unknown name."""
        users, groups = set[int](), set[int]()
        for name in names:
            if name.startswith("%"):
                groups.add(_gid(name[1:]))
            else:
                users.add(_uid(name))
        return cls(frozenset(users), frozenset(groups))

    @property
    def are_others(self) -> bool:
        """Whether the files must let other users than the worker's own one through."""
        return bool(self.uids or self.gids)

    def may_run(self, peer: Peer) -> bool:
        """Return whether a peer may run actors; the mode of the socket decides where there are no credentials.

        The key of a peer has been verified.
        """
        if peer.key_id is not None:
            return True
        if peer.uid is None:
            return not self.are_others
        return peer.uid in {ROOT, os.geteuid()} or peer.uid in self.uids or peer.gid in self.gids


NO_OTHERS = AllowedPeers()


def _uid(name: str) -> int:
    try:
        return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise _unknown("user", name) from None


def _gid(name: str) -> int:
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise _unknown("group", name) from None


def _unknown(kind: str, name: str) -> SettingError:
    return SettingError(f"TE_ACTORS_ALLOW: this host has no {kind} {name!r}; create it, or give its number")
