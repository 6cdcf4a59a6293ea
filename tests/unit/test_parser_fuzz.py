"""Parsers of input: any text is read or refused with the parser's own error, in linear time."""

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from string import ascii_letters
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import ValidationError
from task_executor_receiver.signature import VerificationError, Verifier

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http import duration_of
from actors.dispatch.http1.request import read_url
from actors.dispatch.resp import RefusedError, ReplyReader, UnreadableError
from app.catalog.retry_policy.matchers import AttemptOutcome, matchers_field, read_list
from app.catalog.specs import compile_spec
from app.catalog.specs.channels import divide
from app.catalog.specs.kafka import parse_servers
from app.catalog.templates.nodes import TemplateError
from app.features.events.event import EventPosition
from app.kernel.db.paging import Position
from app.kernel.errors import InvalidCronError, InvalidRequestError
from app.kernel.formats import EPOCH, duration_ms, iso_duration_ms, stored_json
from app.kernel.tracing.span_headers import span_in_headers
from app.kernel.wakeup import decode
from app.schedule.cron_expression import CronExpression
from app.schedule.interval import parse_every
from app.web.http import pagination
from app.web.http.body import parse_json
from app.web.http.request_fields import read_instant
from app.web.jobs.creating import Preferences
from app.web.jobs.labels import LabelCondition, LabelSelector
from app.web.server.refusal import request_id_of
from app.web.services import EXTENSION
from schema.states import EndpointType
from tests.cases import IS_WHOLE, choice_of, each_case
from tests.mutated import mutated

ATTEMPT = "x-task-executor-attempt"
APP = Flask(__name__)
APP.extensions[EXTENSION] = SimpleNamespace(cursor_key=SimpleNamespace(get=lambda: "key"))


class Parser(NamedTuple):
    """A parser, valid texts, and the errors by which it refuses a text."""

    parse: Callable[[str], Any]
    seeds: tuple[str, ...]
    errors: tuple[type[Exception], ...] = ()


def template(text: str) -> None:
    compiled = compile_spec(EndpointType.HTTP, {"url": "https://h/" + text, "body_template": {"a": text}})
    compiled.render({"s": "é{{secret.key}}", "l": [{"id": 1}]}, {"base": "https://h"}, {"key": "s"})


def matcher(text: str) -> None:
    (given_,) = matchers_field("").deserialize([{"pointer": text, "equals": 1}])
    body = json.dumps({"a": [1, {"~/": 1}], "": 1})
    AttemptOutcome(None, 200, body).is_named_by(read_list([given_]))


def cursor(text: str) -> None:
    with APP.test_request_context("/jobs"):
        position = pagination._decode(text, "/jobs")  # noqa: SLF001
        assert pagination._encode(position, "/jobs") == text  # noqa: SLF001


def valid_cursor() -> str:
    with APP.test_request_context("/jobs"):
        return pagination._encode(Position(EPOCH, "job_1"), "/jobs")  # noqa: SLF001


def event_id(text: str) -> None:
    place = EventPosition.parse(text)
    assert place is None or EventPosition.parse(str(place)) == place


def signature(text: str) -> None:
    names = [*(f"webhook-{name}" for name in ("id", "timestamp", "signature")), ATTEMPT, f"{ATTEMPT}-signature"]
    Verifier("secret").verify(zip(names, text.split("|"), strict=False), b"body", now=0)


PARSERS = {
    "cron": Parser(
        CronExpression.parse, ("*/5 0-6,12 1 JAN-MAR MON-SUN", "@hourly", "0 0 29 2 *"), (InvalidCronError,)
    ),
    "duration": Parser(duration_ms, ("500ms", "10s", "1d")),
    "ISO duration": Parser(iso_duration_ms, ("PT10M", "P1DT1S")),
    "every": Parser(parse_every, ("500ms", "366d"), (InvalidRequestError,)),
    "instant": Parser(
        read_instant, ("2030-01-31T09:00:00.123456789Z", "9999-12-31T23:59:59-23:59"), (ValidationError,)
    ),
    "template": Parser(
        template, ("{{input.s}}/{{ config.base }}", "{{input.l.0.id}}?a={{secret.key}}"), (TemplateError,)
    ),
    "cursor": Parser(cursor, (valid_cursor(), ".eJyLVjI0MFDSAQAFgQGM.x"), (InvalidRequestError,)),
    "labels": Parser(LabelSelector().deserialize, ("team=billing,example.com/env=prod", "a="), (ValidationError,)),
    "label": Parser(LabelCondition().deserialize, ("team=billing", "example.com/a"), (ValidationError,)),
    "pointer": Parser(matcher, ("/a/1/~0~1", "/", "/a/0"), (ValidationError,)),
    "event id": Parser(event_id, ("1700000000000000-c-job_1", "9999999999999999")),
    "wake-up": Parser(decode, ("http\t3\tsend%20mail\t%3Da\t128,kafka,http\t", "http\tab12\t1700000000000")),
    "retry-after": Parser(
        lambda text: duration_of(text, 0.0), ("7", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 1 Jan 1 0:0 +99")
    ),
    "url": Parser(read_url, ("https://u:p@example.com:8443/a?b=c#d", "http://[::1]:80/"), (ValueError,)),
    "servers": Parser(parse_servers, ("k1:9092, k2:9092", "[::1]:9092"), (ValueError,)),
    "channel": Parser(divide, ("slack://a/b/c?x=y", "mailtos://u:p@h:587/?to=a@b"), (ValueError,)),
    "body": Parser(parse_json, ('{"a": [1, -2.5e3, "\\ud83d\\ude00", null]}', "[[[]]]"), (InvalidRequestError,)),
    "stored JSON": Parser(stored_json, ('{"a": [1, -2.5e3, "\\u00e9"]}',), (ValueError,)),
    "preferences": Parser(Preferences.read, ('wait=10, respond-async; a="b"',)),
    "traceparent": Parser(span_in_headers, (f"00-{'a' * 32}-{'b' * 16}-01",)),
    "tracestate": Parser(lambda text: span_in_headers(f"00-{'a' * 32}-{'b' * 16}-01", text), ("a=1, b@c=2",)),
    "head": Parser(
        lambda text: request_id_of(text.encode(errors="replace")), ("GET / HTTP/1.1\r\nX-Request-ID: a\r\n\r\n",)
    ),
    "signature": Parser(
        signature, ("exec_1|0|v1,abc= v1,def=|1|v1,abc=", "e|999999999999|v1|9|v1"), (VerificationError,)
    ),
}
ODD = [
    "\0",
    "\n",
    "\r\n",
    " ",
    "\t",
    "é",
    "٣",
    "\u2028",
    "\ud800",
    "{{",
    "}}",
    "~",
    "%",
    "-",
    "+",
    "/",
    "9" * 30,
    "9" * 12,
    "1e999",
]
EXAMPLES = settings(max_examples=300 if IS_WHOLE else 60, deadline=None, derandomize=True, database=None)


def attempt(parser: Parser, text: str) -> None:
    with suppress(*parser.errors):
        parser.parse(text)


@pytest.mark.sampled
@each_case("name", choice_of([*PARSERS], 2))
def test_any_text_is_read_or_refused(name: str) -> None:
    parser = PARSERS[name]

    @EXAMPLES
    @given(mutated(parser.seeds, st.sampled_from(ODD) | st.text(max_size=8), repeat=3000))
    def run(text: str) -> None:
        attempt(parser, text)

    run()
    for seed in parser.seeds:
        attempt(parser, seed)


@pytest.mark.sampled
@pytest.mark.timeout(120)  # a quadratic parser would take hours
@each_case("name", choice_of([*PARSERS], 2))
def test_text_is_parsed_in_linear_time(name: str) -> None:
    parser = PARSERS[name]
    for seed in parser.seeds:
        for piece in {*filter(str.isascii, seed), " ", "9", "{{", "%2"} - set(ascii_letters):
            for place in {0, len(seed) // 2, len(seed)}:
                attempt(parser, seed[:place] + piece * 100_000 + seed[place:] + "\0")


@pytest.mark.sampled
@EXAMPLES
@given(
    mutated(
        [b"+OK\r\n$3\r\n1-2\r\n:7\r\n-ERR no\r\n", b"$0\r\n\r\n*1\r\n", b"$65536\r\n"],
        st.binary(max_size=8),
        repeat=3000,
    ),
    st.lists(st.integers(1, 50), min_size=1, max_size=5),
)
def test_replies_do_not_depend_on_their_pieces(data: bytes, lengths: list[int]) -> None:
    cuts = [0]
    while cuts[-1] < len(data):
        cuts.append(cuts[-1] + (lengths[len(cuts) % len(lengths)] if len(cuts) < 400 else len(data)))
    assert replies([data[a:b] for a, b in pairwise(cuts)]) == replies([data])


def replies(pieces: list[bytes]) -> list[object]:
    reader, read = ReplyReader(), list[object]()
    try:
        for piece in pieces:
            for reply in reader.feed(piece):
                read.append(str(reply) if isinstance(reply, RefusedError) else reply)
    except UnreadableError:
        read.append(UnreadableError)
    return read
