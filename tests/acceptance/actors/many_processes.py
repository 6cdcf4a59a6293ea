"""Many small processes at one worker: `many_processes.py SOCKETS COUNT`; each keeps a message until all have one.

The processes are forked without an import of Dramatiq, so a thousand of them fit into a test. They speak protocol 1.
"""

import json
import os
import socket
import struct
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def send(connection: socket.socket, kind: str, **fields: Any) -> None:
    body = json.dumps({"kind": kind, **fields}).encode()
    connection.sendall(struct.pack("!I", len(body)) + body)


def frames(connection: socket.socket) -> Iterator[dict[str, Any]]:
    stream = connection.makefile("rb")
    while length := stream.read(4):
        yield json.loads(stream.read(*struct.unpack("!I", length)))


def run(path: str, has_message: int, all_have_one: int) -> int:
    """Run one message, and return its attempt once the worker has stored the outcome."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    me = {"session": uuid.uuid4().hex, "host": "many", "pid": os.getpid()}
    actors = [{"name": "many", "queue": "default", "options": {"time_limit": 600_000}}]
    send(connection, "HELLO", protocol=1, threads=1, prefetch=0, actors=actors, **me)
    send(connection, "ROOM", queue="default", places=1)
    for frame in frames(connection):
        if frame["kind"] == "MESSAGE":
            message = {name: frame[name] for name in ("execution", "attempt")}
            send(connection, "STARTED", **message)
            os.write(has_message, b".")
            os.read(all_have_one, 1)  # returns at the end of the pipe
            send(connection, "DONE", result=os.getpid(), **message)
        elif frame["kind"] == "WRITTEN":
            return 0 if frame["is_written"] else 1
    return 1


def main(folder: str, count: int) -> int:
    path = str(next(Path(folder).glob("*.sock")))
    has_message, tell = os.pipe()
    all_have_one, keep = os.pipe()
    children = []
    for _ in range(count):
        if not (child := os.fork()):
            os.close(keep)
            os._exit(run(path, tell, all_have_one))
        children.append(child)
    for _ in range(count):
        os.read(has_message, 1)
    print(f"{count} processes have a message at once", flush=True)
    os.close(keep)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
