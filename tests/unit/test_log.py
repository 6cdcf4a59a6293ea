"""Lines of the log: one for each event, whatever is in it, with the ids of what its thread is busy with."""

import json
import logging

import pytest

from app.kernel.log import IDS, formatter

FORGED = "\n2026-01-01 00:00:00,000 ERROR app: forged\r\x1b[2K\u202e\udcff"


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("te-test", logging.INFO, __file__, 1, message, args, None)
    vars(made).update(extra)
    return made


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_a_client_has_sent_begins_no_line_of_its_own(style: str) -> None:
    line = formatter(style).format(record("the name is %s", FORGED))
    assert line.isprintable()
    assert line.encode()
    assert "forged" in line


def test_text_shows_what_is_harmless_as_it_is() -> None:
    assert formatter("text").format(record("Zürich → %s", "東京")).endswith("INFO    te-test: Zürich → 東京")


def test_a_traceback_has_lines_of_its_own() -> None:
    failed = record("it failed")
    failed.exc_info = (ValueError, ValueError("why"), None)
    assert "\nValueError: why" in formatter("text").format(failed)
    assert "ValueError: why" in json.loads(formatter("json").format(failed))["exception"]


def test_each_line_of_json_names_what_its_thread_is_busy_with() -> None:
    token = IDS.set({"request_id": "req_1", "job_id": "job_1"})
    try:
        entry = json.loads(formatter("json").format(record("any", job_id="job_2")))
    finally:
        IDS.reset(token)
    assert (entry["request_id"], entry["job_id"]) == ("req_1", "job_2")
    assert "request_id" not in json.loads(formatter("json").format(record("any")))
