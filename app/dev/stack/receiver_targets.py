"""Targets of the development stack's deliveries."""

from contextlib import ExitStack
from typing import Self

from app.dev.receiver import Receiver, Record
from app.dev.servers import Tansu, Valkey
from app.dev.stack.stack_processes import Step, silently


class LocalTargets:
    """Recording receiver, Kafka-compatible broker and Redis-compatible server; a context manager."""

    def __init__(self, step: Step = silently, *, record: Record | None = None) -> None:
        self._step = step
        self.receiver = Receiver(record=record)
        self.kafka = Tansu()
        self.valkey = Valkey()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            with self._step("an HTTP receiver"):
                opening.enter_context(self.receiver)
            with self._step("Tansu, a broker that speaks Kafka's protocol"):
                opening.enter_context(self.kafka)
            with self._step("Valkey, a Redis-compatible server"):
                opening.enter_context(self.valkey)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()
