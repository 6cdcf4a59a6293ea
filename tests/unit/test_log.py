"""Log lines: one line for each event, whatever text it contains, with the ids of the thread's current work."""

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
def test_text_from_a_client_never_begins_a_new_line(style: str) -> None:
    line = formatter(style).format(record("the name is %s", FORGED))
    assert line.isprintable()
    assert line.encode()
    assert "forged" in line


def test_text_format_keeps_harmless_characters() -> None:
    assert formatter("text").format(record("Zürich → %s", "東京")).endswith("INFO    te-test: Zürich → 東京")


def test_traceback_has_separate_lines() -> None:
    failed = record("it failed")
    failed.exc_info = (ValueError, ValueError("why"), None)
    assert "\nValueError: why" in formatter("text").format(failed)
    assert "ValueError: why" in json.loads(formatter("json").format(failed))["exception"]


def test_each_json_line_has_the_ids_of_its_threads_current_work() -> None:
    token = IDS.set({"request_id": "req_1", "job_id": "job_1"})
    try:
        entry = json.loads(formatter("json").format(record("any", job_id="job_2")))
    finally:
        IDS.reset(token)
    assert (entry["request_id"], entry["job_id"]) == ("req_1", "job_2")
    assert "request_id" not in json.loads(formatter("json").format(record("any")))
