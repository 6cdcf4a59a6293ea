"""Malformed bodies, values, parts of URLs and headers."""

import json
from typing import Any

# Bodies that are not valid JSON, or that the strict parser refuses.
MALFORMED = {
    "empty": b"",
    "not json": b"name=x",
    "truncated": b'{"name": "x"',
    "trailing": b'{"name": "x"} {}',
    "not utf-8": b'{"name": "\xff"}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"name": "x"}'.encode("utf-16"),
    "raw NUL": b'{"name": "a\0b"}',
    "escaped NUL": rb'{"name": "x", "values": {"a": "\u0000"}}',
    "escaped NUL in a key": rb'{"name": "x", "values": {"a\u0000": 1}}',
    "high surrogate": rb'{"name": "x", "values": {"a": "\ud800"}}',
    "low surrogate": rb'{"name": "x", "values": {"a": ["\uDFFF"]}}',
    "NaN": b'{"name": "x", "values": {"a": NaN}}',
    "Infinity": b'{"name": "x", "values": {"a": -Infinity}}',
    "infinite float": b'{"name": "x", "values": {"a": 1e999}}',
    "endless integer": b'{"name": "x", "values": {"a": ' + b"9" * 5000 + b"}}",
    "long integer": b'{"name": "x", "values": {"a": ' + b"9" * 39 + b"}}",
    "duplicate key": b'{"name": "x", "name": "y", "values": {}}',
    "deep arrays": b'{"name": "x", "values": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "deep objects": b'{"name": "x", "values": ' + b'{"a":' * 101 + b"1" + b"}" * 102,
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
}
INJECTED = "X-Injected"
# Values in JSON bodies. A value may be valid for a field; the answer then has to match the document.
VALUES: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        2**31,
        2**63,
        10**37,
        1.5,
        -1e308,
        "",
        " ",
        "x" * 70_000,
        [],
        [None],
        {},
        {"": {}},
        {"a" * 9000: 1},
    ),
    *(f"a\r\n{INJECTED}: 1", "a\nb", "é", "\u202e", "\U0001f600", "null", "../../etc/passwd", "'; DROP TABLE jobs; --"),
    *(
        "{{",
        "}}",
        "{{secret.token}}",
        "{{input.a.b.c}}",
        "{{{{config.base}}}}",
        "{{nope.x}}",
        "%(x)s {0} ${x} <script>",
    ),
    *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "2030-02-30T00:00:00Z", "* * * * * *", "@every 1s", "P1D"),
    *(
        "http://[::1",
        "http://a:99999/",
        "file:///etc/passwd",
        "redis://\0",
        "1" * 39,
        "NaN",
        json.loads("[" * 90 + "]" * 90),
    ),
]
# Parts of URLs: invalid escapes, incomplete characters, too long, too large, characters out of range.
URL_PARTS = [
    *(
        "%00",
        "%",
        "%zz",
        "%ed%a0%80",
        "%ff%fe",
        "%f0%9f%98%80",
        "a%0d%0aX-Injected:%201",
        "%2e%2e%2f",
        "..%2f..",
        "%252e",
    ),
    *(
        "a" * 4000,
        "-1",
        "1e3",
        "0x10",
        "%D9%A1",
        "99999999999999999999",
        "null",
        "[]",
        "%20",
        "+",
        "'%20OR%201=1--",
        "{{x}}",
    ),
]
CONTENT_TYPES = [
    *(
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "json",
    ),
    *("application/json; charset=utf-16", "application/json-patch+json", "*/*", "application/json\t;;;", "é"),
]
HEADERS = [
    *({"Idempotency-Key": value} for value in ("", "é", "x" * 256, "a\tb", "\x7f")),
    *({"If-Match": value} for value in ("", "*", "x", '"', 'W/"x"', '"a", "b', "é", "," * 2000)),
    *({"If-None-Match": value} for value in ("", "é", '"' * 99)),
    *(
        {"Authorization": value}
        for value in ("", "Bearer", "Bearer  ", "Basic YTpi", "Bearer te_é_x", "Bearer " + "x" * 9000)
    ),
    *({"X-Request-ID": value} for value in ("é", "x" * 9000, "<script>", "a b")),
    {"Content-Encoding": "gzip"},
    {"Accept": "text/html"},
    {"Cookie": "\x01=;;="},
    {"Range": "bytes=0-1"},
]
