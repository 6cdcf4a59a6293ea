"""Page at /docs: Swagger UI without a key, from this host only."""

import re

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tests.cases import each_case
from tests.integration.client import Api, problem


def fetch(api: Api, path: str, **headers: str) -> TestResponse:
    response = api.send("GET", path, headers=headers)
    response.get_data()
    response.close()
    return response


@pytest.fixture
def anonymous(app: Flask) -> Api:
    return Api(app, None)


def test_page_and_assets_come_from_this_host(anonymous: Api) -> None:
    page = anonymous.get("/docs")
    assert (page.status_code, page.mimetype) == (200, "text/html")
    html = page.get_data(as_text=True)
    assets = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert len(assets) == 4
    for path in assets:
        assert path.startswith("/docs/")
        response = fetch(anonymous, path)
        assert response.status_code == 200
        assert response.data
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "//" not in html
    assert "<script>" not in html


def test_page_reads_the_document_without_external_validator(anonymous: Api) -> None:
    script = anonymous.get("/docs/start.js").get_data(as_text=True)
    assert 'url: "/openapi.json"' in script
    assert "validatorUrl: null" in script
    assert "//" not in script


def test_security_policy_of_the_page_names_no_other_host(anonymous: Api) -> None:
    headers = anonymous.get("/docs").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert set(" ".join(policy.values()).split()) <= {"'none'", "'self'", "'unsafe-inline'", "data:"}
    assert headers["X-Frame-Options"] == "DENY"


def test_style_sheets_load_nothing_from_other_hosts(anonymous: Api) -> None:
    style = fetch(anonymous, "/docs/swagger-ui.css").get_data(as_text=True)
    assert not re.findall(r"url\((?!data:|\"data:|'data:)", style)
    assert "@import" not in style


@each_case("path", ["/docs/", "/docs/nope.js", "/docs/swagger-ui.js", "/docs/..%2F__init__.py", "/docs/../x"])
def test_other_files_are_not_served(anonymous: Api, path: str) -> None:
    problem(anonymous.send("GET", path), 404, "NOT_FOUND")


def test_unchanged_asset_is_304(anonymous: Api) -> None:
    first = fetch(anonymous, "/docs/swagger-ui.css")
    again = fetch(anonymous, "/docs/swagger-ui.css", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
