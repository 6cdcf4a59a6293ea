"""Targets of the development stack's deliveries."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from app.dev.receiver import Receiver, Record
from app.dev.servers import Tansu, Valkey
from app.dev.stack.stack_processes import Step, silently


@dataclass(frozen=True, slots=True)
class LocalTargets:
    """Recording receiver, Kafka-compatible broker and Redis-compatible server."""

    receiver: Receiver
    kafka: Tansu
    valkey: Valkey


@contextmanager
def local_targets(step: Step = silently, *, record: Record | None = None) -> Iterator[LocalTargets]:
    """Start the targets and stop them at the end."""
    with ExitStack() as opened:
        with step("an HTTP receiver"):
            receiver = opened.enter_context(Receiver(record=record))
        with step("Tansu, a broker that speaks Kafka's protocol"):
            kafka = opened.enter_context(Tansu())
        with step("Valkey, a Redis-compatible server"):
            valkey = opened.enter_context(Valkey())
        yield LocalTargets(receiver, kafka, valkey)
