"""Site of the documents, which `make docs` builds: its pages request nothing from other hosts."""

import os
import re
from pathlib import Path

import pytest

# References that a browser follows by itself. Links are followed by readers; Mermaid diagrams load a script.
REQUESTS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^>]*"""
    r"""|(?:\burl\(|@import\s)\s*["']?(?:https?:)?//[^)"']*"""
    r"""|class=["']?mermaid\b""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of the built site."""
    built = os.environ.get("TEST_SITE")
    if built is None:
        pytest.skip("`make docs`, a part of `make check`, builds the site and runs this test")
    return Path(built)


def test_pages_request_nothing_from_other_hosts(site: Path) -> None:
    pages = [path for suffix in ("html", "css") for path in site.rglob(f"*.{suffix}")]
    assert len(pages) > 20
    found = {path.name: REQUESTS.findall(path.read_text(encoding="utf-8")) for path in pages}
    assert {name: requests for name, requests in found.items() if requests} == {}


def test_pages_show_pictures_in_the_colours_of_the_reader(site: Path) -> None:
    page = (site / "how-to" / "console" / "index.html").read_text(encoding="utf-8")
    shown = re.findall(r'src=(?:")?\.\./\.\./pictures/([a-z-]+)-(light|dark)\.webp#only-(light|dark)', page)
    assert [(name, scheme) for name, scheme, only in shown if scheme == only] == [
        (name, scheme) for name in ("execution", "dead-letters", "schedules") for scheme in ("light", "dark")
    ]
    assert all((site / "pictures" / f"{name}-{scheme}.webp").exists() for name, scheme, _ in shown)
    schemes = re.findall(r'data-md-color-media="\(prefers-color-scheme: (\w+)\)" data-md-color-scheme="(\w+)"', page)
    assert schemes == [("light", "default"), ("dark", "slate")]


def test_python_page_documents_each_operation_of_the_client(site: Path) -> None:
    page = (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    for name in ("Client", "AsyncClient", "operations.Jobs.create", "operations.Executions.list"):
        assert re.search(rf'id="task_executor_client\.{re.escape(name)}"', page), name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js">',
        "<script src=//cdn.example/x.js>",
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "@import 'https://fonts.example/css'",
        'src: url("//fonts.example/a.woff2")',
        '<pre class="mermaid">',
    ],
)
def test_requests_to_other_hosts_are_recognised(text: str) -> None:
    assert REQUESTS.search(text)
    assert not REQUESTS.search('<a href="https://example.org">')
