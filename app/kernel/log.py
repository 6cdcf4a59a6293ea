"""Logging of every process: one line per event, as text or JSON."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

IDS: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 - replaced, never changed
"""Ids of the current thread's work: fields of each line of JSON that the thread logs."""

T = TypeVar("T")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "fields"}


class LineKind(NamedTuple, Generic[T]):
    """Lines at INFO that are logged for each job, each about one subject: its text, and its fields in JSON."""

    logger: logging.Logger
    message: Callable[[T], str]
    fields: Callable[[T], Mapping[str, Any]]


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON with a field for each item of `extra`.

    `extra` may hold a function `fields`, which returns further fields. Lines of text do not call it.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry = _entry(record.created, record.levelname, record.name, record.getMessage())
        entry |= IDS.get()
        entry |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        entry |= getattr(record, "fields", dict)()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)

    def line(self, created: float, kind: LineKind[T], subject: T) -> str:
        """Format a line of a kind, as `format` formats its record."""
        entry = _entry(created, "INFO", kind.logger.name, kind.message(subject))
        entry |= kind.fields(subject)
        return json.dumps(entry, default=str)


def _entry(created: float, level: str, logger: str, message: str) -> dict[str, Any]:
    moment = f"{_utc_second(int(created))}.{int(created % 1 * 1000):03d}Z"
    return {"time": moment, "level": level, "logger": logger, "message": message}


@lru_cache(maxsize=2)
def _utc_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


@lru_cache(maxsize=2)
def _local_second(second: int) -> str:
    return time.strftime(logging.Formatter.default_time_format, time.localtime(second))


class TextFormatter(logging.Formatter):
    """Formats each record as one line of text; data from clients can neither begin a new line nor hide."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        """Render the record without its traceback."""
        return _printable(super().formatMessage(record))

    def line(self, created: float, kind: LineKind[T], subject: T) -> str:
        moment = f"{_local_second(int(created))},{int(created % 1 * 1000):03d}"
        return _printable(f"{moment} INFO    {kind.logger.name}: {kind.message(subject)}")


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def formatter(style: str) -> logging.Formatter:
    """Return the formatter for a value of TE_LOG_FORMAT: `text` or `json`."""
    return JsonFormatter() if style == "json" else TextFormatter()


def configure(level: str, style: str) -> None:
    """Log everything to stderr in the chosen style, replacing existing handlers."""
    logging.basicConfig(handlers=[logging.StreamHandler()], force=True)
    restyle(level, style)


def restyle(level: str, style: str) -> None:
    """Set style and level of the existing handlers (Dramatiq's write into a pipe to its parent)."""
    root = logging.getLogger()
    root.setLevel(level)
    for handler in root.handlers:
        handler.setFormatter(formatter(style))
