"""Command line of a peer: `enqueue` prints the seconds that it took, `idle` and `delayed` print times by key."""

import asyncio
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

Message = dict[str, Any]

_PAUSE_SECONDS = 0.025
_FIRST_SECONDS = 2.0
_APART_SECONDS = 0.01


class Queue(ABC):
    """Client of a peer."""

    async def open(self) -> None:  # noqa: B027 - most clients connect at the first message
        """Connect."""

    async def close(self) -> None:  # noqa: B027
        """Disconnect."""

    @abstractmethod
    async def send(self, message: Message, delay: float | None = None) -> None:
        """Enqueue one message, due in `delay` seconds."""

    async def send_all(self, messages: list[Message]) -> None:
        """Enqueue many messages, in bulk if possible."""
        for message in messages:
            await self.send(message)


class Starter(ABC):
    """Client of a peer with workflows."""

    @abstractmethod
    def start(self, name: str, messages: list[Message]) -> None:
        """Start a workflow over messages.

        `fan` delivers the first message, then all others at once, then the last; `chain` one after the other.
        """


def main(queue: Queue) -> None:
    """Carry out `enqueue|idle|delayed URL COUNT BODY TOKEN`."""
    command, messages = _messages()
    print(json.dumps(asyncio.run(_carry_out(queue, command, messages))))


def start(starter: Starter) -> None:
    """Carry out `fan|chain URL COUNT BODY TOKEN` and print the Unix time of its begin; the last URL ends with /end."""
    name, messages = _messages()
    messages[-1]["url"] += "/end"
    began = time.time()
    starter.start(name, messages)
    print(json.dumps(began))


def _messages() -> tuple[str, list[Message]]:
    command, url, count, body, token = sys.argv[1:]
    run = os.urandom(4).hex()
    return command, [
        {"url": url, "key": f"{run}-{number}", "body": json.loads(body), "token": token} for number in range(int(count))
    ]


async def _carry_out(queue: Queue, command: str, messages: list[Message]) -> Any:
    await queue.open()
    try:
        if command == "enqueue":
            started = time.perf_counter()
            await queue.send_all(messages)
            return time.perf_counter() - started
        return await (_idle if command == "idle" else _delayed)(queue, messages)
    finally:
        await queue.close()


async def _idle(queue: Queue, messages: list[Message]) -> dict[str, float]:
    """Send one message at a time, and return the time of each."""
    sent = {}
    for message in messages:
        await queue.send(message)
        sent[message["key"]] = time.time()
        await asyncio.sleep(_PAUSE_SECONDS)
    return sent


async def _delayed(queue: Queue, messages: list[Message]) -> dict[str, float]:
    """Send messages with consecutive due times, and return these times."""
    due = {}
    first = time.time() + _FIRST_SECONDS + len(messages) * _APART_SECONDS
    for number, message in enumerate(messages):
        due[message["key"]] = first + number * _APART_SECONDS
        await queue.send(message, due[message["key"]] - time.time())
    return due
