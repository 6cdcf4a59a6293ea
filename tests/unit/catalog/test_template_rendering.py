"""Rendering of templates: the results, and inputs that must not change more than a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.specs import compile_spec
from app.kernel.errors import TemplateError
from tests.cases import each_case
from tests.unit.catalog.rendering import CONFIG, HTTP, INPUT, KAFKA, REDIS, SECRETS, body


def header(template, input_=None):
    spec = {"url": "https://h/", "headers": {"X": template}}
    return compile_spec(HTTP, spec).render(input_ or {}, CONFIG, SECRETS)["headers"]["X"]


@each_case(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{input.s}}", "text"),
        ("{{ input.s }}", "text"),
        ("{{input.i}}", 7),
        ("{{input.f}}", 1.5),
        ("{{input.t}}", True),
        ("{{input.z}}", None),
        ("{{input.o}}", {"k": "é"}),
        ("{{input.l}}", [{"id": 1}, "two"]),
        ("{{input.l.0.id}}", 1),
        ("{{input.l.1}}", "two"),
        ("{{input.deep.a.b-c._d}}", 1),
        ("{{config.obj.a}}", 1),
        ("{{secret.key}}", "s3cret/+ ="),
        ("<{{input.s}}>", "<text>"),
        (" {{input.i}}", " 7"),
        ("{{input.i}}{{input.i}}", "77"),
        ("t={{input.t}} z={{input.z}} f={{input.f}}", "t=true z=null f=1.5"),
        ("o={{input.o}} l={{input.l}}", 'o={"k":"é"} l=[{"id":1},"two"]'),
        ("{{input.evil}}", "{{secret.key}}"),
        ("<{{input.evil}}>", "<{{secret.key}}>"),
        ('{"a":{"b":1}}', '{"a":{"b":1}}'),
        ("query { user { id }}", "query { user { id }}"),
        ('{"a":{{input.i}}}', '{"a":7}'),
        ("{single} }", "{single} }"),
        ({"a": ["{{input.i}}", {"b": "{{input.s}}"}]}, {"a": [7, {"b": "text"}]}),
        ([1, None, True, 1.5, {}], [1, None, True, 1.5, {}]),
    ],
)
def test_body_template_renders(template, expected):
    rendered = body(template, INPUT)
    assert rendered == expected
    assert type(rendered) is type(expected)


@each_case(
    "variable",
    [
        "input.nope",
        "input.s.x",
        "input.l.2",
        "input.l.-1",
        "input.l.x",
        f"input.l.{'9' * 5000}",
        "config.nope",
        "secret.nope",
    ],
)
def test_unresolvable_variable_is_named_with_its_field(variable):
    with pytest.raises(TemplateError) as caught:
        body({"f": "{{" + variable + "}}"}, INPUT)
    assert variable in caught.value.message
    assert caught.value.details[0]["pointer"] == "/spec/body_template/f"


def test_defaults_of_a_spec_are_filled_in():
    rendered = compile_spec(HTTP, {"url": "https://h/"}).render({}, {}, {})
    assert rendered["timeout_ms"] == 30_000
    assert rendered["expected_status_codes"] == [200, 201, 202, 204]


@pytest.mark.parametrize(
    ("template", "expected"), [("{{input.i}}", "7"), ("{{input.o}}", '{"k":"é"}'), ("{{input.z}}", "null")]
)
def test_header_is_always_text(template, expected):
    assert header(template, INPUT) == expected


@each_case("transport", [HTTP, KAFKA])
@each_case("bad", ["a\r\nX-Evil: 1", "\n", "\r", "\0", "\x7f", "\t"])
def test_no_control_character_reaches_a_header(transport, bad):
    template = compile_spec(transport, {"headers": {"X": "a{{input.v}}"}})
    with pytest.raises(TemplateError, match="line break") as caught:
        template.render({"v": bad}, {}, {})
    assert bad not in caught.value.message
    with pytest.raises(TemplateError, match="line break"):
        compile_spec(transport, {"headers": {"X": bad}})


def test_error_does_not_contain_the_value_of_a_secret():
    with pytest.raises(TemplateError) as caught:
        header("{{secret.multi}}")
    assert "a\nb" not in str(caught.value)
    assert "secret.multi" in caught.value.message


@each_case(
    ("value", "fine"),
    [
        (5, True),
        (2**53 - 1, True),
        (2**53, False),
        ("5", False),
        (0, False),
        (True, False),
        (1.0, False),
        (None, False),
    ],
)
def test_max_len_must_resolve_to_a_whole_number(value, fine):
    template = compile_spec(REDIS, {"redis_url": "redis://r", "max_len": "{{config.n}}"})
    if fine:
        assert template.render({}, {"n": value}, {})["max_len"] == value
    else:
        with pytest.raises(TemplateError, match="whole number"):
            template.render({}, {"n": value}, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_lone_placeholder_keeps_any_value(value):
    rendered = body("{{input.v}}", {"v": value})
    assert rendered == value
    assert type(rendered) is type(value)


@given(st.text(), JSON)
def test_rendered_values_are_not_rendered_again(text, other):
    hostile = f"{text}{{{{secret.key}}}}{{{{input.other}}}}"
    rendered = body({"a": "<{{input.v}}>", "b": "{{input.v}}"}, {"v": hostile, "other": other})
    assert rendered == {"a": f"<{hostile}>", "b": hostile}
