"""Messages of the product: docs/reference/messages.md lists them, and each has the shape of its kind."""

import ast
import re
from collections.abc import Collection, Iterator

from app.dev.messages import DOCUMENT, log_lines, rendered, sources
from app.kernel.errors import TaskExecutorError

SMALL_START = re.compile(r"[a-z%]|TE_[A-Z_]+ ")
WHOLE_SENTENCES = re.compile(r"[A-Z'\"{*].*[.?}]", re.DOTALL)
CALLS = {"Detail", "ValidationError"}
WITHOUT_FULL_STOP = "app.catalog.validation"  # its caller adds the full stop


def test_document_matches_the_code_and_every_row_has_a_remedy() -> None:
    text = DOCUMENT.read_text()
    assert text == rendered(text), "run `make messages`, fill the empty cells, and commit docs/reference/messages.md"
    assert [line for line in text.splitlines() if line.endswith("|  |")] == []


def test_log_lines_are_clauses() -> None:
    found = [line.text for line in log_lines()]
    assert len(found) > 40
    assert [text for text in found if not SMALL_START.match(text) or text.endswith(".") or "…" in text] == []


def test_errors_of_commands_are_clauses() -> None:
    found = [text for _, text in messages_of({"CommandError", "UsageError", "SettingError", "fail"})]
    assert len(found) > 30
    assert [text for text in found if not re.match("[a-z{/%]|TE_", text) or text.endswith(".") or "…" in text] == []


def test_errors_for_clients_are_whole_sentences() -> None:
    names = CALLS | {each.__name__ for each in subclasses(TaskExecutorError)}
    found = [(module, text) for module, text in messages_of(names) if module != WITHOUT_FULL_STOP]
    assert len(found) > 100
    assert [each for each in found if not WHOLE_SENTENCES.fullmatch(each[1]) or "…" in each[1]] == []


def messages_of(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Return module and literal text of each call of a name; `{}` stands for a value."""
    for module, tree in sources().items():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name | ast.Attribute) and called(call.func) in names:
                given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "message")]
                yield from ((module, text) for text in map(literal, given) if text)


def called(function: ast.Name | ast.Attribute) -> str:
    return function.id if isinstance(function, ast.Name) else function.attr


def subclasses(base: type[TaskExecutorError]) -> Iterator[type[TaskExecutorError]]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


def literal(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values)
    return None
