"""Templates keep to the policy: no inline code or style, a nonce where htmx may act, and names of known changes."""

import re
from pathlib import Path

import pytest

from app.features.events import change_marks
from schema.creation import FIRST_ROWS
from tests.console_sources import MODULES, TEMPLATES

TAG = re.compile(r"<[a-zA-Z][^<>]*(?:{[{%].*?[%}]}[^<>]*)*>", re.DOTALL)


def faults(text: str) -> list[str]:
    """Return the elements of a template that break a rule."""
    plain = re.sub(r"{#.*?#}", "", text, flags=re.DOTALL)
    found = []
    for tag in TAG.findall(plain):
        if re.search(r"\s(style|on[a-z]+)\s*=", re.sub(r'"[^"]*"', '""', tag)):
            found.append(f"inline code or style: {tag}")
        if re.search(r"\shx-(?!morph-skip)[a-z-]+", tag) and "{{ hx() }}" not in tag:
            found.append(f"no nonce: {tag}")
        if re.search(r"\shx-(on|vals|vars)\b|\bjs:", tag):
            found.append(f"evaluated: {tag}")
        if re.match(r"<td[\s>]", tag) and "data-label=" not in tag and "class=" not in tag and "colspan" not in tag:
            found.append(f"no name on phones: {tag}")
        if tag.startswith("<script") and not ('nonce="{{ nonce() }}"' in tag and "src=" in tag):
            found.append(f"inline script: {tag}")
    body = plain.partition("<body")[2]
    return found + (["script outside the head"] if "<script" in body else []) + re.findall(r"\|\s*safe\b", plain)


def test_regions_follow_changes_that_the_pulse_sends() -> None:
    sent = set(re.findall(r"SELECT '(\w+)'", str(change_marks.READ))) | set(re.findall(r"\('(\w+)'\)", FIRST_ROWS[0]))
    pages = "".join(path.read_text() for path in MODULES)
    followed = {name for names in re.findall(r'live="([^"]*)"', pages) for name in names.split()}
    assert followed - sent == set()


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_template_has_no_inline_code_and_a_nonce_wherever_htmx_acts(template: Path) -> None:
    assert faults(template.read_text()) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_names_of_cells_on_phones_are_those_of_the_columns(template: Path) -> None:
    text = template.read_text()
    named = (name for line in text.splitlines() if "ui.table(" in line for name in re.findall(r'"([^"]*)"', line))
    columns = {name.lstrip("#*-") for name in named}
    cells = set(re.findall(r'data-label="([^"{]+)"', text))
    assert not columns or cells - columns - {"Choose"} == set()


@pytest.mark.parametrize(
    "markup",
    [
        '<p style="color: red">',
        '<button onclick="go()">',
        '<a hx-get="/console">',
        '<a hx-get="{{ here() }}" {{ hx() }} hx-on:click="go()">',
        "<td>1</td>",
        "<script>go()</script>",
        '<body><script nonce="{{ nonce() }}" src="/x.js"></script>',
        "{{ text | safe }}",
    ],
)
def test_rules_find_each_fault(markup: str) -> None:
    assert faults(markup) != []
