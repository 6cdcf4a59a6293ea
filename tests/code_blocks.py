"""Blocks of code of the documents, and the shell script that runs the blocks of a page."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUN_BY = "run by "
_COMMENT_OR_BLOCK = re.compile(
    r"<!-- ((?:run by|not run)[^\n]*?)(?: \((\d+) blocks\))? -->|^ *(```)\w+\n.*?^ *```", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name their language."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)) for indent, language, text in found]


def runs_of(page: Path) -> list[str]:
    """Return the comment before each block: `run by` and a test, or `not run` and the reason; empty without one.

    A comment holds for one block, or for as many as it says.
    """
    found, run, left = list[str](), "", 0
    for comment, blocks, fence in _COMMENT_OR_BLOCK.findall(page.read_text(encoding="utf-8")):
        if fence:
            found.append(run if left > 0 else "")
            left -= 1
        else:
            run, left = comment, int(blocks or 1)
    return found


def script_of(*blocks: Block) -> str:
    """Return the blocks as shell: a Python block that begins with the name of a file is written, another one is run."""
    return "\n".join(block.text if block.language == "sh" else _python(block.text) for block in blocks)


def _python(text: str) -> str:
    named = re.match(r"# (\S+\.py)(, at the end)?\n", text)
    target = "python - <" if named is None else f"cat {'>>' if named[2] else '>'} {named[1]} <"
    return f"{target}<'END_OF_BLOCK'\n{text}END_OF_BLOCK"
