"""Logging of every process: one line per event, as text or JSON."""

import json
import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

IDS: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 - replaced, never changed
"""Ids of the current thread's work: fields of each line of JSON that the thread logs."""

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "fields"}


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON with a field for each item of `extra`.

    `extra` may hold a function `fields`, which returns further fields. Lines of text do not call it.
    """

    def format(self, record: logging.LogRecord) -> str:
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
    """Formats each record as one line of text; data from clients can neither begin a new line nor hide."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        """Render the record without its traceback."""
        text = super().formatMessage(record)
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
