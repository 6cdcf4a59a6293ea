"""Addresses of things: each leads to a page of the console, none to the answer for unknown paths."""

from flask import Flask

from app.catalog.uses import UseKind
from app.kernel.audit import ResourceType
from tests.cases import each_case
from tests.integration.console.visitor import page_rule

KINDS = sorted({kind.value for kinds in (UseKind, ResourceType) for kind in kinds})


@each_case("kind", KINDS)
def test_each_kind_has_a_page(app: Flask, kind: str) -> None:
    assert "<path:" not in page_rule(app, kind)
