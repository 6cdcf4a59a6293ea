"""URL templates: accepted templates, encoding of values, and inputs that must not change the target."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.catalog.specs import compile_spec
from app.kernel.errors import TemplateError
from tests.cases import each_case
from tests.unit.catalog.rendering import CONFIG, HTTP, REDIS, SECRETS


def url(template, input_=None, config=CONFIG):
    return compile_spec(HTTP, {"url": template}).render(input_ or {}, config, SECRETS)["url"]


@each_case(
    ("template", "expected"),
    [
        ("https://h/a b?x=ä", "https://h/a%20b?x=%C3%A4"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("{{config.base}}/emails", "https://api.example.com/emails"),
        ("{{config.base}}/u/{{input.v}}", "https://api.example.com/u/a%2Fb%3Fc%23d%40e%3A%2520%20%25%C3%A9"),
        ("{{config.base}}?q={{input.v}}", "https://api.example.com?q=a%2Fb%3Fc%23d%40e%3A%2520%20%25%C3%A9"),
        ("https://u:{{secret.key}}@h:1/p", "https://u:s3cret%2F%2B%20%3D@h:1/p"),
        ("https://h/p?k={{secret.key}}", "https://h/p?k=s3cret%2F%2B%20%3D"),
        ("https://h/{{secret.key}}", "https://h/s3cret/+%20="),
    ],
)
def test_url_template_renders(template, expected):
    assert url(template, {"v": "a/b?c#d@e:%20 %é"}) == expected


@each_case(
    "template",
    [
        "{{input.url}}",
        "https://{{input.host}}/",
        "https://h{{input.x}}",
        "https://h:{{input.port}}/",
        "https://{{input.user}}@h/",
        "{{input.scheme}}://h/",
        "{{config.base}}{{input.path}}",
        "{{config.scheme}}://{{input.host}}/",
        "{{config.base}}#{{input.x}}",
        "https:/{{input.x}}/",
        "/{{input.x}}",
        "https://h/../{{input.x}}",
    ],
)
def test_input_before_the_end_of_the_host_is_refused_at_compilation(template):
    with pytest.raises(TemplateError) as caught:
        compile_spec(HTTP, {"url": template})
    assert caught.value.details[0]["pointer"] == "/spec/url"


@each_case(
    "base", ["https:", "https:/", "https://", "https:///", "//h", "h", "", "ftp://h", "javascript:x", "https://h\n"]
)
def test_config_value_cannot_let_the_input_choose_the_host(base):
    with pytest.raises(TemplateError, match="/spec/url"):
        url("{{config.base}}/{{input.host}}/x", {"host": "evil.example"}, {"base": base})


@each_case(
    "target", ["h:65536", "h:x", "h:1:2", "h:-1", "h:٩", "[::1", "::1", "[::1]x", "a b", "u:p@", "u:p@h:99999", "[]"]
)
def test_invalid_host_or_port_is_refused(target):
    with pytest.raises(TemplateError, match="host or port") as caught:
        compile_spec(HTTP, {"url": f"http://{target}/"})
    assert caught.value.details[0]["pointer"] == "/spec/url"
    with pytest.raises(TemplateError, match="host or port"):
        url("{{config.base}}/x", {}, {"base": f"http://{target}"})


@each_case("target", ["127.1", "2130706433", "127.0.0.1.", "u:p@10.0.1:80", "0x7f.1", "0X7F000001", "\uff11.1"])
def test_number_as_a_host_is_refused_before_a_job_exists(target):
    with pytest.raises(TemplateError, match="is a number: write it as"):
        compile_spec(HTTP, {"url": f"http://{target}/"})
    with pytest.raises(TemplateError, match="is a number: write it as"):
        url("{{config.base}}/x", {}, {"base": f"http://{target}"})


@pytest.mark.parametrize("target", ["h", "h:", "h:65535", "a_b.c-d", "[::1]", "[fe80::1%25eth0]:80", "u:p@127.0.0.1:1"])
def test_valid_host_and_port_is_accepted(target):
    assert url(f"http://{target}/x", {}) == f"http://{target}/x"


@pytest.mark.parametrize("values", [("..", ""), (".", ""), (".", "."), ("", "..")])
def test_input_cannot_create_a_dot_segment(values):
    with pytest.raises(TemplateError, match="path segment"):
        url("https://h/a/{{input.x}}{{input.y}}/b", {"x": values[0], "y": values[1]})


def test_redis_userinfo_is_encoded():
    spec = {"redis_url": "redis://:{{secret.p}}@r:6379/0"}
    assert compile_spec(REDIS, spec).render({}, {}, {"p": "a@b/c"})["redis_url"] == "redis://:a%40b%2Fc@r:6379/0"


@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.sampled_from(["https://good.example:8443/p/", "https://good.example:8443?q="]),
)
def test_no_input_changes_the_target(first, second, base):
    try:
        rendered = url(base + "{{input.a}}/{{input.b}}", {"a": first, "b": second})
    except TemplateError:
        assert {first, second} & {".", ".."}
        return
    parts = urlsplit(rendered)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "good.example:8443", "")
    assert rendered.isascii()
    assert rendered.startswith(base)
    assume("\ufffd" not in rendered and not any(0xD800 <= ord(c) <= 0xDFFF for c in first + second))
    assert unquote(rendered.removeprefix(base)) == f"{first}/{second}"
