"""Process with an actor that ends its messages at once, for tests that count calls of the worker."""

import socket
from pathlib import Path

from task_executor_dramatiq import frames as kit_frames


def answer(path: Path, together: int, rounds: int) -> None:
    """Take all messages of each round, and end them, as a process that reads and writes much at once."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30.0)
        connection.connect(str(path))
        hello = kit_frames.encode_hello("s", together, together, [{"name": "mail"}])
        connection.sendall(hello + kit_frames.encode("ROOM", queue="default", places=together))
        reader, answers, left = kit_frames.FrameReader(), b"", rounds * together
        while left:
            for frame in reader.feed(connection.recv(1_000_000)):
                if frame["kind"] == "MESSAGE":
                    named, left = kit_frames.named(kit_frames.key_of(frame)), left - 1
                    answers += kit_frames.encode("STARTED", **named) + kit_frames.encode("DONE", **named)
                    if left % together == 0:
                        connection.sendall(answers)
                        answers = b""
        connection.recv(1)
