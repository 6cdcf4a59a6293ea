"""Texts of the repository that people read: docstrings, comments, messages, test names and paragraphs of documents."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LOGGING = {"debug", "info", "warning", "error", "exception"}


def is_read(name: str) -> bool:
    """Return whether a file has prose of the project: licences list the words of other projects."""
    return name.endswith((".py", ".md")) and name != "docs/reference/licences.md"


def files() -> list[Path]:
    """Return the files of the repository with prose of the project."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if is_read(name) and (ROOT / name).exists()]


class Passage(NamedTuple):
    """A text and its place; `is_opening` is false for text that may begin with any word, such as a comment."""

    place: str
    text: str
    is_opening: bool = False


def passages_of(path: Path) -> Iterator[Passage]:
    """Yield the texts of a Python module or a Markdown document."""
    source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    found = _of_document(source) if path.suffix == ".md" else (*_of_tree(ast.parse(source)), *_comments(source))
    for line, text, is_opening in found:
        yield Passage(f"{name}:{line}", re.sub(r"`[^`]*`", "CODE", text), is_opening)


def _of_tree(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " "), True
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or "", True
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for argument in node.args if called in LOGGING or called.endswith("Error") else ():
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.lineno, argument.value, False


def _comments(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each block of comment lines, and each comment behind code."""
    for block in re.finditer(r"(?:^ *# .*\n)+|  # .*", source, re.MULTILINE):
        text = re.sub(r"^ *# |# (noqa|type:).*", "", block[0], flags=re.MULTILINE)
        yield source.count("\n", 0, block.start()) + 1, " ".join(text.split()), False


def _of_document(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield headings and paragraphs, without code blocks."""
    block, is_code = list[str](), False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        is_fence = line.startswith("```")
        is_code ^= is_fence
        if is_code or is_fence or not line.strip():
            if block:
                yield number - len(block), " ".join(block), False
            block = []
        elif line.startswith("#"):
            yield number, line.lstrip("# "), True
        else:
            block.append(line)
