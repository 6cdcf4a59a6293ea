"""Compilation of templates: accepted templates, the variables of each field, and the pointers in errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.specs import compile_spec
from app.catalog.templates.compilation import MAX_DEPTH
from app.kernel.errors import TemplateError
from tests.cases import each_case
from tests.unit.catalog.rendering import HTTP, KAFKA, REDIS, body


@each_case(
    "text",
    [
        "{{input.x",
        "input.x}}",
        "{{}}",
        "{{input}}",
        "{{input.}}",
        "{{input..x}}",
        "{{.x}}",
        "{{env.HOME}}",
        "{{Input.x}}",
        "{{input.a b}}",
        "{{{input.x}}}",
        "{{ {{input.x}} }}",
        "{{input.x}} and {{",
        "{input.x}}",
    ],
)
def test_malformed_template_is_refused_with_its_pointer(text):
    with pytest.raises(TemplateError) as caught:
        body({"a/b": ["ok", text]})
    assert caught.value.details[0]["pointer"] == "/spec/body_template/a~1b/1"


@pytest.mark.parametrize("key", ["{{input.x}}", "a{{", "}}"])
def test_key_is_never_a_template(key):
    with pytest.raises(TemplateError, match="key"):
        body({key: 1})


def test_every_fault_is_reported():
    with pytest.raises(TemplateError) as caught:
        body({"a": "{{", "b": "{{nope.x}}"})
    assert [detail["pointer"] for detail in caught.value.details] == ["/spec/body_template/a", "/spec/body_template/b"]


def test_spec_nested_too_deeply_is_refused():
    value: object = "x"
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    with pytest.raises(TemplateError, match="deep"):
        body(value)


ALLOWED = {
    (HTTP, "url"): "input config secret",
    (HTTP, "headers"): "input config secret",
    (HTTP, "body_template"): "input config secret",
    (HTTP, "method"): "",
    (HTTP, "timeout_ms"): "",
    (KAFKA, "bootstrap_servers"): "config secret",
    (KAFKA, "topic"): "config",
    (KAFKA, "key_template"): "input config",
    (KAFKA, "value_template"): "input config secret",
    (KAFKA, "headers"): "input config secret",
    (KAFKA, "properties"): "config secret",
    (KAFKA, "acks"): "",
    (REDIS, "redis_url"): "config secret",
    (REDIS, "stream"): "config",
    (REDIS, "fields_template"): "input config secret",
    (REDIS, "max_len"): "config",
    (REDIS, "approximate_trimming"): "",
}


@each_case("namespace", ["input", "config", "secret"])
@each_case(("transport", "name"), ALLOWED)
def test_each_field_accepts_only_its_namespaces(transport, name, namespace):
    template = "{{" + namespace + ".x}}"
    value = {"k": template} if name in {"headers", "properties"} else template
    if name == "url" and namespace == "input":
        value = "https://h/" + template
    if namespace in ALLOWED[transport, name].split():
        assert compile_spec(transport, {name: value}).placeholders[0].namespace == namespace
    else:
        with pytest.raises(TemplateError, match="not allowed in this field"):
            compile_spec(transport, {name: value})


def test_secret_references_are_found_by_parsing():
    spec = {"url": "https://h/{{secret.a}}", "headers": {"X": "Bearer {{ secret.b }}", "Y": "secret.c"}}
    assert compile_spec(HTTP, spec).secret_refs == {"a", "b"}


def test_placeholder_of_max_len_must_stand_alone():
    with pytest.raises(TemplateError, match="of its own"):
        compile_spec(REDIS, {"max_len": "1{{config.n}}"})


@given(st.text())
def test_any_text_compiles_or_is_refused(text):
    try:
        rendered = body(json.loads(json.dumps(text)), {"x": 1})
    except TemplateError:
        assert "{{" in text or "}}" in text
    else:
        assert rendered == text


def compile_megabyte(piece):
    text = piece * (1_000_000 // len(piece))
    return compile_spec(HTTP, {"url": "https://h/", "body_template": text})


# Compilation takes time in proportion to the length, whatever the braces. Quadratic work would take more than an hour
# here.
@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["{", "{{x", "}", "{{}", "{{}}", "}}{{", "{{input.", "{{ "])
def test_megabyte_of_unbalanced_braces_is_refused(piece):
    with pytest.raises(TemplateError) as caught:
        compile_megabyte(piece)
    assert caught.value.details[0]["pointer"] == "/spec/body_template"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("piece", "placeholders"), [("{ ", 0), ("{}", 0), ("{{input.x}}", 90_909)])
def test_megabyte_of_balanced_braces_is_compiled(piece, placeholders):
    assert len(compile_megabyte(piece).placeholders) == placeholders
