"""Features: each is one folder, in one list, with a page of its own and the file names that all share."""

from collections import Counter
from pathlib import Path

from app.features import FEATURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "app" / "features"
MAX_LINES = 60  # of a README
# Each feature may have these: the same name for the same role.
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


def test_each_folder_is_a_feature_of_the_list() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert {feature.name for feature in FEATURES} == folders


def test_each_feature_says_its_promise_words_and_decisions() -> None:
    for feature in FEATURES:
        text = (FOLDER / feature.name / "README.md").read_text()
        assert len(text.splitlines()) <= MAX_LINES, feature.name
        assert [part for part in ("**Promise.**", "**Words.**", "## Decisions") if part not in text] == [], feature.name


def test_a_file_of_a_feature_is_named_by_its_role_or_like_no_other() -> None:
    modules = [path for package in ("actors", "app", "brokers") for path in (ROOT / package).rglob("*.py")]
    names = Counter(path.name for path in modules)
    own = [path for path in FOLDER.glob("*/*.py") if path.name not in ROLES]
    known = {"document.py"}  # of catalog files, beside the OpenAPI document
    assert [str(path) for path in own if names[path.name] > 1 and path.name not in known] == []
