"""Deliveries as `curl`: the command sends the same as a worker, and no file."""

import itertools
import shlex
from datetime import UTC, datetime
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Identity
from actors.dispatch.http import compose
from app.console.views.curl_text import MAX_ARGUMENT, curl_of, curl_of_delivery

KEY = "exec_1"
IDENTITY = Identity(
    execution_id=KEY, job_id="job_1", attempt=1, scheduled_at=datetime(2026, 1, 1, tzinfo=UTC), traceparent="00-0-0-00"
)


def spec_of(body: Any, *, type_: str | None = None, **changes: Any) -> dict[str, Any]:
    headers = {} if type_ is None else {"content-type": type_}
    return {"url": "http://x.example/hook", "method": "POST", "headers": headers, "body_template": body} | changes


def values(command: str, option: str) -> list[str]:
    """Return the arguments that follow an option, as a shell reads the command."""
    words = shlex.split(command.replace("\\\n", " "))
    return [value for name, value in itertools.pairwise(words) if name == option]


@pytest.mark.parametrize("type_", [None, "application/json", "application/vnd.x+JSON", "text/plain"])
@pytest.mark.parametrize("body", ["@/etc/passwd", "paid", "", {"file": "@/etc/passwd"}, ["it's"], 7, None])
def test_command_sends_the_body_and_the_type_of_a_delivery(body: Any, type_: str | None) -> None:
    spec = spec_of(body, type_=type_)
    head, _, sent = compose(spec, IDENTITY)[1].decode().partition("\r\n\r\n")
    command = curl_of_delivery(spec, KEY)
    assert values(command, "--data-raw") == ([] if body is None else [sent])
    assert values(command, "-d") == []
    shown = {each.lower() for each in values(command, "-H")}
    assert shown == {each.lower() for each in head.split("\r\n") if each.lower().startswith(("idem", "content-t"))}


def test_command_of_a_request_sends_no_file() -> None:
    assert values(curl_of("POST", "http://x.example/jobs", "@/etc/passwd"), "--data-raw") == ['"@/etc/passwd"']
    assert values(curl_of("PUT", "http://x.example/jobs", {}), "-d") == []


def test_brackets_of_an_address_are_no_pattern() -> None:
    command = curl_of_delivery(spec_of(None, url="http://x.example/?filter[status]=a"), KEY)
    assert "-g" in shlex.split(command.replace("\\\n", " "))


def test_header_without_a_value_is_sent() -> None:
    assert "X-Empty;" in values(curl_of_delivery(spec_of(None, headers={"X-Empty": ""}), KEY), "-H")


def test_body_that_a_shell_does_not_take_is_no_command() -> None:
    assert curl_of_delivery(spec_of("é" * (MAX_ARGUMENT // 2), type_="text/plain"), KEY)
    assert curl_of_delivery(spec_of("é" * (MAX_ARGUMENT // 2 + 1), type_="text/plain"), KEY) == ""


def test_request_that_is_too_long_for_a_shell_is_not_shown() -> None:
    assert curl_of("POST", "http://te/jobs", {"input": "x" * (MAX_ARGUMENT - 12)}) != ""
    assert curl_of("POST", "http://te/jobs", {"input": "x" * MAX_ARGUMENT}) == ""
