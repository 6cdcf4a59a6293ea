"""Links of templates and pages: each names a page that exists, and an operation that the API has."""

import re
from pathlib import Path

from app.console.http.console_page import ConsolePage
from app.console.pages import all_pages
from app.web.registration import resources
from tests.console_sources import APP, MODULES, TEMPLATES

PAGES = all_pages()
PAGE = re.compile(r"""\bto\(\s*["'](\w+)["']""")
OPERATION = re.compile(r'"((?:GET|POST|PUT|PATCH|DELETE) /[^" ]*)"(?! ~)')  # the start of the process checks modules
REGION = re.compile(r"""\bregion\(\s*["'](\w+)["']""")
OF_THE_CONSOLE = {"sign_in", "sign_out"}


def named(pattern: re.Pattern[str], files: list[Path]) -> set[tuple[str, str]]:
    """Return the matches in files of the console, with the file."""
    return {(path.relative_to(APP).as_posix(), name) for path in files for name in pattern.findall(path.read_text())}


def test_links_lead_to_pages_that_exist() -> None:
    pages = {page.name for page in PAGES} | OF_THE_CONSOLE
    assert sorted(place for place in named(PAGE, [*TEMPLATES, *MODULES]) if place[1] not in pages) == []


def test_forms_and_conditions_name_operations_that_exist() -> None:
    known = {
        f"{operation.method} {operation.path}"
        for resource in resources()
        for operation, _ in resource.operations.values()
    }
    assert sorted(place for place in named(OPERATION, TEMPLATES) if place[1] not in known) == []


def test_regions_of_a_page_are_registered() -> None:
    shown = {(page.name, name) for page in PAGES for name in REGION.findall(template_of(page).read_text())}
    assert len(shown) > len(PAGES) / 2
    assert shown - {(page.name, name) for page in PAGES for name in page.regions} == set()


def template_of(page: ConsolePage) -> Path:
    (found,) = [path for path in TEMPLATES if path.match(f"templates/page/{page.name}.html")]
    return found
