"""Pictures in documents: each exists, is small, and says in words what it shows; no picture is left over."""

import re
from pathlib import Path

from tests.browser.pictures.camera import WIDTH
from tests.prose import ROOT, files

FOLDER = ROOT / "docs" / "pictures"
MAX_PICTURES, MAX_BYTES = 5, 100_000
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def shown() -> dict[Path, list[str]]:
    """Return the alternative texts of each picture that a document shows."""
    found: dict[Path, list[str]] = {}
    for document in (path for path in files() if path.suffix == ".md"):
        for words, target in SHOWN.findall(document.read_text()):
            found.setdefault((document.parent / target).resolve(), []).append(words)
    return found


def width_of(picture: bytes) -> int:
    """Return the width of a WebP with an extended header: 24 bits, less one."""
    assert (picture[:4], picture[8:16]) == (b"RIFF", b"WEBPVP8X")
    return int.from_bytes(picture[24:27], "little") + 1


def test_documents_show_all_pictures_and_no_others() -> None:
    pictures = {path.resolve() for path in FOLDER.iterdir()}
    assert set(shown()) == pictures
    assert 0 < len(pictures) <= MAX_PICTURES


def test_pictures_are_small() -> None:
    for path in FOLDER.iterdir():
        picture = path.read_bytes()
        assert (path.name, width_of(picture)) == (path.name, WIDTH)
        assert len(picture) <= MAX_BYTES, path.name


def test_each_picture_has_words_for_readers_who_do_not_see_it() -> None:
    assert {path.name: words for path, texts in shown().items() for words in texts if len(words.split()) < 8} == {}
