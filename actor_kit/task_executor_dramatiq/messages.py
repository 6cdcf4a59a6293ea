"""Messages of Dramatiq as inputs of jobs, and back."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dramatiq.encoder import JSONEncoder
from dramatiq.errors import DecodeError
from dramatiq.message import Message, get_encoder

MAX_NAME = 128
_PLAIN = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_DIGEST_CHARACTERS = 8
_FIELDS = {"queue_name", "actor_name", "args", "kwargs", "options", "message_id", "message_timestamp"}
_TYPES: dict[str, tuple[Any, str]] = {
    "args": ((list, tuple), "a list"),
    "kwargs": (dict, "an object"),
    "options": (dict, "an object"),
    "message_id": (str, "a text"),
    "message_timestamp": (int, "a number"),
}
DEFAULT_PRIORITY, MAX_PRIORITY = 128, 255


@dataclass(frozen=True)
class Job:
    """Job of an endpoint: a message to be sent."""

    endpoint: str
    input: dict[str, Any]
    key: str
    delay_ms: int | None = None
    priority: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the job as it follows an outcome."""
        optional = {"delay_ms": self.delay_ms, "priority": self.priority}
        given = {name: value for name, value in optional.items() if value is not None}
        return {"endpoint": self.endpoint, "input": self.input, "key": self.key, **given}


def endpoint_name(actor: str) -> str:
    """Return the name of the endpoint of an actor, as the service names it: `send_mail` is `send-mail`."""
    if _PLAIN.fullmatch(actor) and len(actor) <= MAX_NAME - _DIGEST_CHARACTERS - 1:
        return actor.replace("_", "-")
    digest = hashlib.sha256(actor.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    words = "-".join(re.findall(r"[a-z0-9]+", actor.lower()))[: MAX_NAME - _DIGEST_CHARACTERS - 1]
    return "-".join(part for part in (words.strip("-"), digest) if part)


def priority_of(priority: int, broker_priority: int = 0) -> int:
    """Return the priority of the service, where more is earlier.

    Dramatiq has two: the priority of an actor, where less is earlier, and `broker_priority` of a message to RabbitMQ,
    where more is earlier.
    """
    return min(max(DEFAULT_PRIORITY - priority + broker_priority, 0), MAX_PRIORITY)


def input_of(message: Any) -> dict[str, Any]:
    """Return the input of a job for a message: its fields, or its bytes if the encoder does not write JSON."""
    encoded: bytes = message.encode()
    try:
        fields = json.loads(encoded)
    except ValueError:
        fields = None
    if isinstance(fields, dict) and fields.keys() == _FIELDS:
        return fields
    return {"encoded": base64.b64encode(encoded).decode()}


def message_of(frame: Mapping[str, Any]) -> "Message[Any]":
    """Return the message of a MESSAGE frame; raises DecodeError.

    An input of other fields than a message's is the keyword arguments, as of a job that was created through the API.
    """
    fields, last = _fields_of(frame.get("input")), frame.get("last_error") or {}
    for name, (type_, noun) in _TYPES.items():
        if name in fields and not isinstance(fields[name], type_):
            raise _malformed(f"`{name}` of the message is not {noun}", fields[name])
    options = {**fields.get("options", {}), **(last.get("options") or {})}
    options.pop("eta", None)  # the service has waited; Dramatiq would hold the message, and send another one then
    if last.get("traceback"):
        options["traceback"] = last["traceback"]
    return Message(
        # The worker decides where a message runs: an input of another queue or actor would find no consumer.
        queue_name=frame["queue"],
        actor_name=frame["actor"],
        args=tuple(fields.get("args", ())),
        kwargs=fields.get("kwargs", {}),
        options=options,
        message_id=fields.get("message_id", frame["execution"]),
        message_timestamp=fields.get("message_timestamp") or frame.get("timestamp") or int(time.time() * 1000),
    )


def _fields_of(given: Any) -> Mapping[str, Any]:
    """Return the fields of a message from an input; raises DecodeError."""
    if not isinstance(given, dict):
        raise _malformed("the arguments of the endpoint are not an object", given)
    if given.keys() == {"encoded"}:
        return Message.decode(_bytes_of(given["encoded"])).asdict()
    if given.keys() == _FIELDS and type(get_encoder()) is not JSONEncoder:
        # Written by an encoder of the user, which may add types to JSON.
        return Message.decode(json.dumps(given).encode()).asdict()
    is_message = bool(given) and given.keys() <= _FIELDS and ("args" in given or "kwargs" in given)
    return given if is_message else {"kwargs": given}


def _bytes_of(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise _malformed(f"`encoded` is not a text in base64: {error}", encoded) from None


def _malformed(reason: str, value: Any) -> DecodeError:
    return DecodeError(reason, repr(value)[:MAX_NAME], None)


def delay_of(message: Any, delay: int | None, logger: Any) -> int | None:
    """Return the delay of a message in milliseconds, and take `eta` out of its options: the service waits for it."""
    eta = message.options.pop("eta", None)
    if delay is not None or eta is None:
        return None if delay is None else max(0, int(delay))
    now = int(time.time() * 1000)
    if isinstance(eta, bool) or not isinstance(eta, (int, float)):
        logger.warning(
            "Invalid eta value for message %r: %r. Setting eta to current_millis().", message.message_id, eta
        )
        return None
    return max(0, int(eta) - now)
