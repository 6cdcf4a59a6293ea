"""Hooks of MkDocs: the root documents become pages, and Markdown is read as GitHub reads it."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
_PICTURE = re.compile(r'<picture>.*? srcset="([^"]+)".*? src="([^"]+)" alt="([^"]+)"></picture>')
_ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


def on_config(config: Any) -> Any:
    """Replace `how-to/*` in the navigation by the other pages of that folder, so that a page can be removed."""
    (pages,) = [section["How-to"] for section in config.nav if isinstance(section, dict) and "How-to" in section]
    others = {f"how-to/{path.name}" for path in (ROOT / "docs" / "how-to").glob("*.md")} - {*pages}
    place = pages.index("how-to/*")
    pages[place : place + 1] = sorted(others)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the root documents to the files of docs/."""
    for name in ROOT_DOCUMENTS:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Rewrite links, lists and pictures; everything else of a page stays."""
    place = page.file.src_uri
    own = place.removeprefix("project/") if place.startswith("project/") else f"docs/{place}"

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.groups()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
        uri = f"project/{target}" if target in ROOT_DOCUMENTS else target.removeprefix("docs/")
        if files.get_file_from_path(uri) is None and (ROOT / target).exists():
            return label if target in label else f"{label} (`{target}` in the repository)"
        return f"[{label}]({posixpath.relpath(uri, posixpath.dirname(place) or '.')}{anchor or ''})"

    markdown = _PICTURE.sub(r"![\3](\2#only-light)![\3](\1#only-dark)", markdown)  # by palette
    return "\n".join(_as_python_markdown(_LINK.sub(link, markdown).split("\n")))


def _as_python_markdown(lines: list[str]) -> list[str]:
    """Indent by 4 columns for each level of a list, and put an empty line before a list or table after a paragraph."""
    found, in_fence, shift, in_items = [""], False, 0, False
    for line in lines:
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        if not in_fence:
            shift = (0 if not indent else 4 if indent < 4 else 8) - indent
            is_item, before = bool(_ITEM.match(line)), found[-1].strip()
            if before and ((is_item and not in_items) or (text.startswith("|") and not before.startswith("|"))):
                found.append("")
            in_items = is_item or (in_items and bool(before))
        in_fence ^= text.startswith("```")
        found.append(" " * (indent + shift) + text if text else "")
    return found[1:]
