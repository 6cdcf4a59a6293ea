"""Documents agree with the code: diagrams, lists, paths and operations."""

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

from app.catalog.specs.channel_presets import SCHEMES
from schema.states import FINAL, TRANSITIONS
from tests.cases import each_case
from tests.integration.http.document import document as openapi

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "app/**/README.md", "actors/*.md", "brokers/*.md", "schema/*.md")
    for path in ROOT.glob(pattern)
)
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
FOLDERS = "actors|app|benchmarks|brokers|client|deploy|docs|receiver|schema|tests"
EXPECTED_BY_EVERYBODY = {"README.md", "ARCHITECTURE.md", "LICENSE", ".gitignore"}
COMPOSITION_ROOTS = {
    "app/web/application.py",
    "app/web/gunicorn_config.py",
    "app/scheduler/__main__.py",
    "actors/__init__.py",
}


def block_after(heading: str) -> str:
    """Return the first fenced block of a section of ARCHITECTURE.md."""
    match = re.search(rf"^## [0-9]+\. {heading}\n.*?^```\w*\n(.*?)^```", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    assert match is not None, f"ARCHITECTURE.md has no section {heading!r} with a block"
    return match[1]


def product_files() -> list[Path]:
    files = [path for package in ("actors", "brokers", "app", "schema") for path in (ROOT / package).rglob("*.py")]
    return [path for path in files if "app/dev/" not in path.as_posix()]


def test_state_diagram_has_exactly_the_legal_transitions() -> None:
    drawn = set(re.findall(r"^ *(\S+) --> ([^\s:]+)", block_after("States"), re.MULTILINE))
    legal = {(before or "[*]", after) for before, after in TRANSITIONS} | {(status, "[*]") for status in FINAL}
    assert drawn == legal


def test_map_lists_the_packages_in_the_order_of_the_import_contracts() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / "setup.cfg")

    def layers(contract: str) -> list[set[str]]:
        return [set(re.split(r"[ |:]+", line)) for line in contracts[contract]["layers"].split("\n") if line]

    drawn = block_after("Map")
    assert [{top} for top in re.findall(r"^\w+", drawn, re.MULTILINE)] == layers("importlinter:contract:layers")
    (inside,) = re.findall(r"^app\n(.*?)^schema", drawn, re.DOTALL | re.MULTILINE)
    listed = " ".join(re.findall(r"^  (\S+(?: \w+)*)", inside, re.MULTILINE)).split()
    wanted = layers("importlinter:contract:table-of-contents")
    rank = {name: position for position, layer in enumerate(wanted) for name in layer}
    assert set(listed) == set(rank)
    assert [rank[name] for name in listed] == sorted(rank[name] for name in listed)


def test_map_names_each_entry_of_the_top_level() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = ARCHITECTURE.partition("## 3. Map")[2].partition("## 4.")[0]
    drawn = re.findall(r"^\w+", block_after("Map"), re.MULTILINE)
    named = {*drawn, *(path.partition("/")[0] for path in re.findall(r"`([^`\n]+)`", text))}
    assert {line.partition("/")[0] for line in listed.splitlines()} - named <= EXPECTED_BY_EVERYBODY


@each_case("document", DOCUMENTS)
def test_every_path_in_a_document_exists(document: Path) -> None:
    """Check paths in backticks that begin with a folder of the repository, and the targets of relative links."""
    text = (ROOT / document).read_text()
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)[^`]*`", text)
    missing = [path for path in paths if not list(ROOT.glob(path.rstrip("/")))]
    assert missing == []
    tests = re.findall(r"`(tests/[\w./]+)::(\w+)`", text)
    assert [name for path, name in tests if f"def {name}(" not in (ROOT / path).read_text()] == []
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        linked = (ROOT / document).parent / target if target else ROOT / document
        assert linked.exists(), target
        assert not heading or heading in headings(linked), (target, heading)


def headings(document: Path) -> set[str]:
    """Return the anchors by which links refer to the headings of a document."""
    found = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@each_case("document", DOCUMENTS)
def test_every_operation_in_a_document_exists(document: Path) -> None:
    operations = {
        (method.upper(), re.sub(r"{\w+}", "{}", path)) for path, found in openapi()["paths"].items() for method in found
    } | {("GET", "/openapi.json"), ("GET", "/docs")}
    named = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`\s?]*)", (ROOT / document).read_text())
    assert [each for each in named if (each[0], re.sub(r"{\w+}|NAME", "{}", each[1])) not in operations] == []


def test_documented_channels_are_exactly_the_supported_ones() -> None:
    text = (ROOT / "docs" / "reference" / "channels.md").read_text()
    listed = re.findall(r"`(\w{2,})(\(s\))?`", text.partition("Allowed are")[2].partition("Any other scheme")[0])
    assert {name + tls for name, may in listed for tls in ("", "s" if may else "")} == SCHEMES


def test_only_composition_roots_read_the_environment() -> None:
    readers = {path for path in product_files() if "os.environ" in path.read_text()}
    assert {path.relative_to(ROOT).as_posix() for path in readers} == COMPOSITION_ROOTS


def test_only_queue_and_features_write_executions() -> None:
    writes = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM)\s+executions\b")
    writers = {path.relative_to(ROOT).parts[:2] for path in product_files() if writes.search(path.read_text())}
    assert writers == {("app", "queue"), ("app", "features")}
