"""Features: each feature is one folder, one entry of the list and one README, with standard file names."""

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

from app.feature import Feature
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
    """If it fails, keep the import, the link or the operation out; CONTRIBUTING.md, *Removing a feature*."""
    found = {feature.name: references(feature) for feature in FEATURES}
    assert {name: places for name, places in found.items() if places and name not in NEEDED} == {}
    assert {name for name in NEEDED if not found[name]} == set(), "remove it from NEEDED"


def references(feature: Feature) -> list[str]:
    """Return the files that import a feature, link to its page or name its operations, outside of its own places."""
    name = feature.name
    own = re.compile(rf"(app|tests/\w+)/features/({name}/|__init__\.py)|docs/how-to/{name}\.md")
    imported = re.compile(rf"app\.features(\.| import .*\b){name}\b")
    linked = re.compile("|".join([rf"\b{name}\.md\b", *operations(feature)]))
    kept = {path: text for path, text in texts().items() if not own.match(path)}
    return [path for path, text in kept.items() if (linked if path.endswith(".md") else imported).search(text)]


@cache
def texts() -> dict[str, str]:
    """Return the texts of all modules and documents by path."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {path: (ROOT / path).read_text() for path in listed.stdout.splitlines() if (ROOT / path).exists()}


def operations(feature: Feature) -> list[str]:
    """Return a pattern for each operation of a feature, as documents name operations."""
    views = [each for resource in feature.resources() for each in resource.operations.values()]
    own = [each for each, view in views if view.__module__.startswith(f"app.features.{feature.name}.")]
    return [f"`{each.method} {re.sub('<[^>]*>', '[^/`]+', each.path)}(?![^`?\\s])" for each in own]
