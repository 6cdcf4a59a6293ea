"""Compiling a template takes work in proportion to its length, whatever its braces.

Work that grows with the square would take more than an hour here.
"""

import pytest

from app.catalog.specs import compile_spec
from app.catalog.templates.compilation import SpecTemplate
from app.errors import TemplateError
from schema.states import EndpointType

pytestmark = pytest.mark.timeout(120)


def compile_megabyte(piece: str) -> SpecTemplate:
    text = piece * (1_000_000 // len(piece))
    return compile_spec(EndpointType.HTTP, {"url": "https://h/", "body_template": text})


@pytest.mark.parametrize("piece", ["{", "{{x", "}", "{{}", "{{}}", "}}{{", "{{input.", "{{ "])
def test_a_megabyte_of_unbalanced_braces_is_refused(piece: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_megabyte(piece)
    assert caught.value.details[0]["pointer"] == "/spec/body_template"


@pytest.mark.parametrize(("piece", "placeholders"), [("{ ", 0), ("{}", 0), ("{{input.x}}", 90_909)])
def test_a_megabyte_of_balanced_braces_is_compiled(piece: str, placeholders: int) -> None:
    assert len(compile_megabyte(piece).placeholders) == placeholders
