"""Page about compatibility with Dramatiq: its tests, and which of them run as they are.

`python -m tests.acceptance.actors.dramatiq_suite.page SOURCE` writes the page from a checkout of Dramatiq.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.code_blocks import DOCS

PAGE = DOCS / "reference" / "dramatiq.md"
HEAD = """# Compatibility with Dramatiq

Dramatiq's own tests over `TaskExecutorBroker` ([how-to](../how-to/actors.md)), compared with its source by a test.
*Unchanged*: passes as it is; its fixtures, `StubBroker` and `RedisBroker` stand for this broker. Tests of results,
rate limiters, barriers and group callbacks also run with `ExecutionsBackend` and `ExecutionsLimiterBackend`. *Adapted*:
another test of this project shows the same. *Not ours*: no part of this broker.

"""
OTHER_WAYS = {
    "a stored message, sent again with its id, runs again": "`message.copy(message_id=…)`, a new group or pipeline; "
    "`POST /executions/{id}/retry` after a failure",
    "`group.run()` as one request": "`with broker.transaction(): group.run()`: all or nothing, in one commit; by the "
    "API, each message by itself",
    "the broker starts its worker": "`task-executor-worker.service`, or `dramatiq actors`",
    "`dramatiq-abort` without Redis": '`broker.cancel(message, if_running="abort")`, which is stored',
    "workflows in the kit": "the client's [builder](../how-to/workflows.md): a node names the endpoint of an actor",
}


class LeftOut(NamedTuple):
    """A test or file of Dramatiq that does not run as it is; `own` is the test that shows the same."""

    name: str
    kind: str
    reason: str
    own: str

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


def exceptions() -> list[LeftOut]:
    """Return each test or file that does not run as it is."""
    lines = Path(__file__).with_name("exceptions.txt").read_text().splitlines()
    parts = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [LeftOut(name, kind, reason, *own or [""]) for name, kind, reason, *own in parts]


def names_by_file(source: Path) -> dict[str, list[str]]:
    """Return the names of the tests of each file."""
    files = sorted((source / "tests").rglob("test_*.py"))
    found = {str(path.relative_to(source)): _names(ast.parse(path.read_text())) for path in files}
    return {file: names for file, names in found.items() if names}  # one file is for mypy


def _names(module: ast.Module) -> list[str]:
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if node.name.startswith("test_")]


def counts_on(page: str) -> dict[str, int]:
    """Return the number of tests of each file as the page has it; a sdist lacks some of the files."""
    return {name: int(count) for name, count in re.findall(r"^\| `(\S+\.py)` \| (\d+) \|", page, re.M)}


def counts_of(source: Path) -> dict[str, int]:
    """Return the number of tests of each file of the source."""
    return {Path(file).name: len(names) for file, names in names_by_file(source).items()}


def page_of(counts: dict[str, int]) -> str:
    """Return the page for the number of tests of each file."""
    left_out = exceptions()
    rows, total = [], Counter[str]()
    for file, count in sorted(counts.items()):
        of_file = [each for each in left_out if Path(each.file).name == file and not each.name.endswith("]")]
        kinds = Counter(each.kind for each in of_file)
        if any("::" not in each.name for each in of_file):
            kinds = Counter({of_file[0].kind: count})
        row = Counter(tests=count, unchanged=count - kinds.total()) + kinds
        total += row
        rows.append(_row(f"`{file}`", row))
    table = "| file | tests | unchanged | adapted | not ours |\n|---|--:|--:|--:|--:|\n"
    adapted = [f"| {names} | {reason} | `{own}` |" for names, reason, own in _grouped(left_out, "adapted")]
    others = [f"| {names} | {reason} |" for names, reason, _ in _grouped(left_out, "not ours")]
    return (
        HEAD
        + table
        + "\n".join([*rows, _row("all", total)])
        + "\n\n## Adapted\n\n| test of Dramatiq | reason | test of this project |\n|---|---|---|\n"
        + "\n".join(adapted)
        + "\n\n## Not ours\n\n| test or file | reason |\n|---|---|\n"
        + "\n".join(others)
        + "\n\n## Other ways\n\n| not here | instead |\n|---|---|\n"
        + "".join(f"| {wish} | {way} |\n" for wish, way in OTHER_WAYS.items())
        + "\nReasons: `actor_kit/README.md`.\n"
    )


def _row(name: str, counted: Counter[str]) -> str:
    return (
        f"| {name} | " + " | ".join(str(counted[key]) for key in ("tests", "unchanged", "adapted", "not ours")) + " |"
    )


def _grouped(left_out: list[LeftOut], kind: str) -> list[tuple[str, str, str]]:
    """Return the names of the tests of each reason, the reason, and the test that shows the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in left_out:
        if each.kind == kind:
            found.setdefault((each.reason, each.own), []).append(f"`{_short(each)}`")
    return [(", ".join(names), reason, own) for (reason, own), names in found.items()]


def _short(each: LeftOut) -> str:
    return each.name.partition("::")[2] or Path(each.name).name


if __name__ == "__main__":
    PAGE.write_text(page_of(counts_of(Path(sys.argv[1]))))
