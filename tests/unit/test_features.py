"""Features: each feature is one folder, one entry of the list and one README, with standard file names."""

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
