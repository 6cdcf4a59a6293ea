"""Static files of the console, under addresses with their hash, so that browsers may keep them for a year."""

import gzip
import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flask import Blueprint, Response, request

from app.kernel.errors import NotFoundError

FOLDER = Path(__file__).parents[1] / "static"
ROUTE = "static_file"
_SUFFIXES = {".css", ".js", ".svg"}
_HASH_CHARACTERS = 12


class StaticFile(NamedTuple):
    """Content of a file, and its content compressed by gzip."""

    content: bytes
    compressed: bytes
    content_type: str


def register(blueprint: Blueprint) -> None:
    """Serve the files without a session."""
    blueprint.add_url_rule("/static/<path:name>", ROUTE, _serve)


def address(path: str) -> str:
    """Return the address of a file in the folder, such as `/console/static/console.3fa1c2….css`."""
    return f"/console/static/{_hashed_names()[path]}"


def _serve(name: str) -> Response:
    file = _files().get(name)
    if file is None:
        raise NotFoundError("There is no such file.")
    is_compressed = "gzip" in request.headers.get("Accept-Encoding", "")
    response = Response(file.compressed if is_compressed else file.content, content_type=file.content_type)
    if is_compressed:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@cache
def _hashed_names() -> dict[str, str]:
    names = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _SUFFIXES:
            short = hashlib.sha256(path.read_bytes()).hexdigest()[:_HASH_CHARACTERS]
            own = path.relative_to(FOLDER)
            names[own.as_posix()] = own.with_name(f"{path.stem}.{short}{path.suffix}").as_posix()
    return names


@cache
def _files() -> dict[str, StaticFile]:
    return {hashed: _read(FOLDER / own) for own, hashed in _hashed_names().items()}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    content_type = kind if kind.startswith("image/") else f"{kind}; charset=utf-8"
    return StaticFile(content, gzip.compress(content, mtime=0), content_type)
