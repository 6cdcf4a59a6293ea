"""Test modules are never imported, so that each test module can be moved or removed."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAY_IMPORT = re.compile(r"import[^\n]* tests\.|from tests[.\w]*\.test_|from tests[.\w]* import (\([^)]*|[^\n]*)\btest_")
"""What each import of a test module matches; to parse all modules takes longer than most tests."""


def imported_tests(source: str) -> list[str]:
    """Return the test modules that a source imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found += [module, *(f"{module}.{alias.name}" for alias in names)]
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case _:
                pass
    ours = (name.split(".") for name in found if name.startswith("tests."))
    return sorted({".".join(parts) for parts in ours if parts[-1].startswith("test_")})


def test_helpers_live_outside_test_modules() -> None:
    sources = {path.relative_to(TESTS): path.read_text() for path in TESTS.rglob("*.py")}
    sources = {path: source for path, source in sources.items() if MAY_IMPORT.search(source)}
    breaches = {str(path): imported for path, source in sources.items() if (imported := imported_tests(source))}
    assert breaches == {}, "move shared helpers to tests/<name>.py or to a conftest.py"


def test_import_from_a_test_module_is_found() -> None:
    for source in (
        "from tests.unit.test_blame import answered",
        "from tests.unit import test_blame",
        "from tests.unit import (\n    blame,\n    test_blame,\n)",
        "import tests.unit.test_blame",
        "import os, tests.unit.test_blame",
    ):
        assert MAY_IMPORT.search(source), source
        assert imported_tests(source) == ["tests.unit.test_blame"]
    assert imported_tests("from tests.rows import add_letter") == []
    assert imported_tests("from pytest import test_something") == []
