"""Logging of every process: one line per event, as text or JSON."""

import json
import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

IDS: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 - it is never changed, only replaced
"""What the current thread is busy with: fields of every line of JSON that it logs meanwhile."""

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "fields"}


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON; whatever was passed as `extra` becomes a field.

    What `fields` of it returns are fields as well: it is called for JSON only, since lines of text leave it out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Render the record."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= IDS.get()
        entry |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        entry |= getattr(record, "fields", dict)()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class TextFormatter(logging.Formatter):
    """Formats each record as one line of text, in which what a client has sent can neither begin another nor hide."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the class it derives from
        """Render the record without its traceback."""
        text = super().formatMessage(record)
        return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def formatter(style: str) -> logging.Formatter:
    """Return the formatter for a value of TE_LOG_FORMAT: `text` or `json`."""
    if style == "json":
        return JsonFormatter()
    return TextFormatter()


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
