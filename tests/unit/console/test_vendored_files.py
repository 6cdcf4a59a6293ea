"""Vendored files are unchanged, and their licences are listed."""

import tomllib
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "app" / "console" / "static" / "vendor"
FILES = tomllib.loads((FOLDER / "VENDORED.toml").read_text())["file"]


def test_vendored_files_have_the_listed_digests() -> None:
    found = {
        path.name: sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir() if path.suffix in {".js", ".css"}
    }
    assert found == {each["name"]: each["sha256"] for each in FILES}


def test_vendored_file_consists_of_the_files_of_its_package() -> None:
    for each in FILES:
        parts = (FOLDER / each["name"]).read_bytes().split(b"\n;/* next file */\n")
        assert [sha256(part).hexdigest() for part in parts] == [part["sha256"] for part in each["parts"]]


def test_licences_of_vendored_files_are_listed_and_included() -> None:
    listed = (ROOT / "docs" / "reference" / "licences.md").read_text()
    for each in FILES:
        assert f"- {each['package']} {each['version']}: {each['licence']}," in listed
        assert (FOLDER / f"{each['homepage'].rsplit('/', 1)[1]}-{each['version']}.LICENSE").exists()
