"""Blocks of code in tutorials and how-tos: each block is run by a test, or has a reason why none runs it."""

import json
import shutil
import subprocess

import pytest

from tests.acceptance.dev import page_scripts
from tests.code_blocks import DOCS, ROOT, RUN_BY, blocks_of, runs_of

PAGES = {
    page.relative_to(DOCS).as_posix(): page
    for part in ("tutorial", "how-to")
    for page in sorted((DOCS / part).glob("*.md"))
    if blocks_of(page)
}


@pytest.mark.parametrize("name", PAGES)
def test_each_block_is_run_or_has_a_reason(name: str) -> None:
    """If it fails, put `<!-- run by TEST -->` or `<!-- not run: REASON -->` before the block."""
    found = runs_of(PAGES[name])
    assert len(found) == len(blocks_of(PAGES[name]))
    for test in {run.removeprefix(RUN_BY) for run in found if run.startswith(RUN_BY)} - {page_scripts.PATH}:
        assert name.rpartition("/")[2] in (ROOT / test).read_text(), test
    assert all(run.startswith((RUN_BY, "not run: ")) for run in found)


def test_scripts_of_pages_have_blocks() -> None:
    assert len(page_scripts.pages()) > 5
    assert page_scripts.pages()[-1] == page_scripts.LAST


@pytest.mark.parametrize("name", PAGES)
def test_each_block_has_valid_syntax(name: str) -> None:
    bash = shutil.which("bash")
    for language, text in blocks_of(PAGES[name]):
        if language == "python":
            compile(text, name, "exec")
        elif language == "json":
            json.loads(text)
        elif language == "sh" and bash:
            subprocess.run([bash, "-n"], input=text, text=True, check=True)
