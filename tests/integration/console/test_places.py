"""Addresses of things: each leads to a page of the console, none to the answer for unknown paths."""

import pytest
from flask import Flask

from app.catalog.uses import UseKind
from app.console.views import places
from app.features.search.hits import HitKind
from app.kernel.audit import ResourceType

KINDS = sorted({kind.value for kinds in (HitKind, UseKind, ResourceType) for kind in kinds})


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_page(app: Flask, kind: str) -> None:
    address = places.place_of(kind, "a/b?c#d")
    assert "a/b" not in address
    path = address.partition("#")[0]
    endpoint, _ = app.url_map.bind("x").match(path)
    rule = next(rule for rule in app.url_map.iter_rules() if rule.endpoint == endpoint)
    assert "<path:" not in rule.rule, f"{kind}: {path}"
