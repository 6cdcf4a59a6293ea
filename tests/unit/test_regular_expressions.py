"""Regular expressions of the product: each takes linear time for any text, or reads a text of bounded length."""

import importlib

import pytest
from marshmallow import Schema, ValidationError, fields, validate

import tests.worker_environment  # noqa: F401 - first
from app.catalog.specs.channel_presets import PRESETS
from app.catalog.specs.http import HttpSpec
from app.catalog.specs.redis_stream import RedisStreamSpec
from app.catalog.specs.spec_fields import TextInOrder, target_url
from app.cli import console
from app.kernel.name_patterns import matches
from schema.job_bounds import MAX_NAME
from tests.pattern_places import VALIDATORS, Place, places
from tests.regular_expressions import is_linear

# Patterns that the product forms at run time.
FORMED: dict[str, list[str]] = {
    "actors/dispatch/channel_request.py: request_of.match": [
        request.path for preset in PRESETS.values() for request in preset.requests
    ],
    "app/catalog/specs/spec_fields.py: target_url.pattern": [
        check.regex.pattern
        for check in target_url("http", frozenset()).validators
        if isinstance(check, validate.Regexp)
    ],
    "app/cli/console.py: _with_statuses": [
        rf"\b({'|'.join(words)})\b"
        for words in console._STYLES.values()  # noqa: SLF001
    ],
    "app/kernel/metrics/probe.py: _last_success.line": ['(?m)^te_chore_seconds{chore="outbox"} (\\S+)$'],
}
# Patterns without a proof, and why they are fast.
BOUNDED = {
    "app/kernel/name_patterns.py: _compiled": "patterns of routes and names of endpoints have at most 128 characters",
    "app/kernel/sql.py: read_together.of_each": "it reads statements of the product",
}


@pytest.fixture(scope="module")
def all_places() -> list[Place]:
    return list(places())


def test_each_pattern_takes_linear_time(all_places: list[Place]) -> None:
    slow = [
        f"{place}: {pattern!r}"
        for place in all_places
        if str(place) not in BOUNDED
        for pattern in (FORMED[str(place)] if place.pattern is None else [place.pattern])
        if not is_linear(pattern, place.flags, is_search=place.is_search)
    ]
    assert slow == []


def test_lists_of_patterns_are_complete(all_places: list[Place]) -> None:
    formed = {str(place) for place in all_places if place.pattern is None}
    assert formed == FORMED.keys() | BOUNDED.keys()
    assert {each.__name__ for each in (validate.Regexp, *validate.Regexp.__subclasses__())} == VALIDATORS


@pytest.mark.parametrize(
    ("pattern", "is_search"),
    [
        (rb"\r\nx-request-id:[ \t]*([!-~]*)[ \t]*\r\n", True),
        (r"^(?![A-Za-z]+://[^/?#{}@]*:[^/?#{}@]+@)http://", False),
        (r"(?P<user>[^/?#]*)@(?P<host>[^/?#\s]+)", False),
        (r'(?:"(.*?)"|(.*?))(?:\s*,\s*|$)', False),
        (r"'(?:[^']|'')*'", True),
        ("(a+)+b", False),
        ("(a*b*)*c", False),
        ("(?:xy|[wx]y)*z", False),
        ("a*a*b", False),
        ("a{1,30}a{1,30}b", False),
        ("(?i)[A-Z]*[a-z]*!", False),
        ("a*b", True),
        ("a(a*b)?", True),
        (r"[ \t]*,", True),
    ],
)
def test_proof_refuses_super_linear_patterns(pattern: str | bytes, is_search: bool) -> None:
    assert not is_linear(pattern, is_search=is_search)


@pytest.mark.parametrize(
    ("pattern", "is_search"),
    [
        (r"[a-z0-9]+(-[a-z0-9]+)*", False),
        (r"^[\s\S]*\}\}\s*$", False),
        ("(?:ab|ac)*d", False),
        ("a*b", False),
        ("^a*b", True),
        ("[ \t]+", True),
        ("(ab)+", True),
    ],
)
def test_proof_accepts_linear_patterns(pattern: str, is_search: bool) -> None:
    assert is_linear(pattern, is_search=is_search)


@pytest.mark.timeout(60)  # without the bounds, a quadratic pattern would take hours
def test_long_routes_match_in_bounded_time() -> None:
    assert not matches("*a" * (MAX_NAME // 2), "a" * (MAX_NAME // 2 - 1) + "b")


@pytest.mark.timeout(60)  # all checks of the length of a megabyte would take half an hour
@pytest.mark.parametrize(
    ("schema", "field", "scheme"), [(HttpSpec, "url", "http"), (RedisStreamSpec, "redis_url", "redis")]
)
def test_long_url_is_refused_at_once(schema: type[Schema], field: str, scheme: str) -> None:
    faults = schema().validate({field: f"{scheme}://" + ":" * 1_000_000})
    assert faults[field] == ["Length must be between 1 and 8192."]


def test_fields_with_several_checks_stop_at_the_first_fault() -> None:
    importlib.import_module("app.web.registration")  # imports the schemas of all resources
    fields_ = [
        field
        for schema in _subclasses(Schema)
        if schema.__module__.startswith("app.")
        for declared in schema._declared_fields.values()  # noqa: SLF001
        for field in _nested(declared)
    ]
    several = [field for field in fields_ if len(field.validators) > 1]
    assert several
    assert {type(field) for field in several} == {TextInOrder}
    checked: list[str] = []

    def refuse(_value: object) -> None:
        checked.append("length")
        raise ValidationError("too long")

    with pytest.raises(ValidationError):
        TextInOrder(validate=[refuse, checked.append]).deserialize("text")
    assert checked == ["length"]


def _subclasses(schema: type[Schema]) -> list[type[Schema]]:
    return [each for below in schema.__subclasses__() for each in (below, *_subclasses(below))]


def _nested(field: fields.Field) -> list[fields.Field]:
    parts = [getattr(field, name, None) for name in ("inner", "key_field", "value_field")]
    return [field, *(below for part in parts if isinstance(part, fields.Field) for below in _nested(part))]
