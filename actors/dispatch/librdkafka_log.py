"""Log of librdkafka, in the log of this process."""

import logging
from collections.abc import Iterable
from typing import Any

from app.catalog.scrub import Scrubber

log = logging.getLogger(__name__)


class LibrdkafkaLog:
    """Logger for confluent-kafka's Producer: writes librdkafka's lines into the log of this process, without secrets.

    Lost and refused connections appear several times a second while a broker is unreachable, and each attempt reports
    them anyway: their level is DEBUG.
    """

    def __init__(self, scrubbers: Iterable[Scrubber]) -> None:
        self._scrubbers = tuple(scrubbers)

    def log(self, level: int, form: str, *arguments: Any) -> None:
        text = form % arguments if arguments else form
        for scrubber in self._scrubbers:
            text = scrubber.text(text)
        # confluent-kafka passes librdkafka's facility first.
        is_noise = bool(arguments) and arguments[0] in {"FAIL", "ERROR"}
        log.log(logging.DEBUG if is_noise else level, "librdkafka: %s", text)
