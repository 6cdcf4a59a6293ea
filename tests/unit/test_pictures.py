"""Pictures in documents: in light and dark, small, and with words that say what they show; none is left over."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.browser.pictures.camera import SCALE, SCHEMES, WIDTH
from tests.prose import ROOT, files

FOLDER = ROOT / "docs" / "pictures"
MAX_PICTURES, MAX_BYTES = 5, 150_000
SHOWN = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"><img src="([^"]+)" alt="([^"]+)">'
    r"</picture>"
)
ANY_SHOWN = re.compile(r"<picture|<img|!\[")


class Shown(NamedTuple):
    """A picture of a document: its files for dark and light pages, and its alternative text."""

    dark: Path
    light: Path
    words: str


def shown() -> list[Shown]:
    """Return the pictures of all documents; fails for a picture that has no version for dark pages."""
    found = []
    for document in (path for path in files() if path.suffix == ".md"):
        for line in (each for each in document.read_text().splitlines() if ANY_SHOWN.search(each)):
            picture = SHOWN.search(line)
            assert picture is not None, (document, line)
            dark, light, words = picture.groups()
            found.append(Shown(*((document.parent / target).resolve() for target in (dark, light)), words))
    return found


def width_of(picture: bytes) -> int:
    """Return the width of a WebP with an extended header: 24 bits, less one."""
    assert (picture[:4], picture[8:16]) == (b"RIFF", b"WEBPVP8X")
    return int.from_bytes(picture[24:27], "little") + 1


def test_documents_show_all_pictures_and_no_others() -> None:
    pictures = {path.resolve() for path in FOLDER.iterdir()}
    assert {path for each in shown() for path in (each.dark, each.light)} == pictures
    assert 0 < len(pictures) <= MAX_PICTURES * len(SCHEMES)


def test_readers_of_dark_pages_see_the_dark_version_of_the_same_picture() -> None:
    for each in shown():
        name = each.light.name.removesuffix("-light.webp")
        assert (each.light.name, each.dark.name) == (f"{name}-light.webp", f"{name}-dark.webp")


def test_pictures_are_sharp_and_small() -> None:
    for path in FOLDER.iterdir():
        picture = path.read_bytes()
        assert (path.name, width_of(picture)) == (path.name, WIDTH * SCALE)
        assert len(picture) <= MAX_BYTES, path.name


def test_each_picture_has_words_for_readers_who_do_not_see_it() -> None:
    assert [each.words for each in shown() if len(each.words.split()) < 8] == []
