"""Features: each feature is one folder, one entry of the list and one README, with standard file names."""

import re
import subprocess
from collections import Counter
from pathlib import Path

from app.features import FEATURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "app" / "features"
MAX_LINES = 60  # lines of a README
# File names that each feature may use: the same name for the same role.
ROLES = {
    f"{role}.py"
    for role in [
        "__init__",
        "admission",
        "api",
        "checks",
        "chores",
        "cli",
        "events",
        "handlers",
        "metrics",
        "reasons",
        "rules",
        "schemas",
        "store",
    ]
}
# Features that code, tests or documents outside of their folders need, so that a removal starts there.
NEEDED = {
    *("actors", "breakers", "bulk_jobs", "control", "dead_letters", "doctor", "events", "expiry", "limits", "queues"),
    *("rollups", "search", "workflows"),
}


def test_feature_folders_and_the_feature_list_agree() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert {feature.name for feature in FEATURES} == folders


def test_each_feature_documents_its_promise_words_and_decisions() -> None:
    for feature in FEATURES:
        text = (FOLDER / feature.name / "README.md").read_text()
        assert len(text.splitlines()) <= MAX_LINES, feature.name
        assert [part for part in ("**Promise.**", "**Words.**", "## Decisions") if part not in text] == [], feature.name


def test_feature_file_has_a_standard_or_unique_name() -> None:
    modules = [path for package in ("actors", "app", "brokers") for path in (ROOT / package).rglob("*.py")]
    names = Counter(path.name for path in modules)
    own = [path for path in FOLDER.rglob("*.py") if path.name not in ROLES]
    known = {"document.py"}  # used for catalog files and for the OpenAPI document
    assert [str(path) for path in own if names[path.name] > 1 and path.name not in known] == []


def test_feature_is_named_in_its_own_places_only() -> None:
    """If it fails, keep the import or the link out; CONTRIBUTING.md, *Removing a feature*."""
    found = {feature.name: references(feature.name) for feature in FEATURES}
    assert {name: places for name, places in found.items() if places and name not in NEEDED} == {}
    assert {name for name in NEEDED if not found[name]} == set(), "remove it from NEEDED"


def references(name: str) -> list[str]:
    """Return the files that import a feature or link to its page, without its folders and the list of features."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    own = re.compile(rf"(app|tests/\w+)/features/({name}/|__init__\.py)|docs/how-to/{name}\.md")
    reference = re.compile(rf"\bapp\.features\.{name}\b|\bapp\.features import .*\b{name}\b|\b{name}\.md\b")
    paths = [path for path in listed.stdout.splitlines() if not own.match(path) and (ROOT / path).exists()]
    return [path for path in paths if reference.search((ROOT / path).read_text())]
