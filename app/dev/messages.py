"""`make messages`: writes docs/reference/messages.md: error codes of the API, and log lines of WARNING and above.

The last column is written by people in the document itself: a row keeps its text until one of its other cells changes.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from app.kernel import errors
from app.web.http.error_envelope import http_error

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "messages.md"
_LEVELS = {"warning": "WARNING", "error": "ERROR", "exception": "ERROR", "critical": "CRITICAL"}
_LOGGER = re.compile(r"\blog$|getLogger")
# Statuses of requests that reach no operation, and that no class of errors has.
_WITHOUT_CLASS = (405, 408, 414, 431)
_HEAD = """# Messages

Written by `make messages` from the code, except the last column of each table. `tests/unit/test_messages.py` compares.

## Error codes

Errors of the API have one shape: `code`, `message`, `request_id`, `details` and `retryable`. A message consists
of whole sentences. `details` names each fault by a JSON pointer or the name of a parameter.

"""
_LOG_HEAD = """
## Log lines

A log line is a clause: event, cause, then what the process does, then what an operator can do. `%s` and `%d` stand for
values. WARNING: somebody may have to act. ERROR: somebody has to act. CRITICAL: the process exits, and its supervisor
restarts it. The end of an outage is logged at the level of its beginning. A traceback comes from a defect: report it.

"""
_CODES = ("code", "status", "meaning", "action")
_LINES = ("level", "text", "effect or action")


class LogCall(NamedTuple):
    """Logger call: level and format string."""

    level: str
    text: str


def error_codes() -> Iterator[tuple[str, str, str]]:
    """Return code, status and meaning of each error that the API answers with."""
    # A class without a code of its own has the meaning of its base class.
    meanings = {(each.code, str(each.status)): each for each in reversed([*_classes(errors.TaskExecutorError)])}
    yield from sorted((code, status, each.summary()) for (code, status), each in meanings.items())
    for status in _WITHOUT_CLASS:
        code, message = http_error(status)
        yield code, str(status), message


def _classes(base: type[errors.TaskExecutorError]) -> Iterator[type[errors.TaskExecutorError]]:
    for each in base.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
        yield from _classes(each)


@cache
def sources() -> Mapping[str, ast.Module]:
    """Return the syntax tree of each module of the product by its name."""
    found = {}
    for folder in ("actors", "app", "brokers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
            if not name.startswith("app.dev"):
                found[name] = ast.parse(path.read_text())
    return found


def log_lines() -> Iterator[LogCall]:
    """Return the log lines of WARNING and above."""
    for tree in sources().values():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Attribute) and _LOGGER.search(ast.unparse(call.func.value)):
                    yield from _line(call, call.func.attr, function)


def _line(call: ast.Call, method: str, function: ast.AST) -> Iterator[LogCall]:
    if method in _LEVELS:
        yield LogCall(_LEVELS[method], _text(call.args[0]))
    elif method == "log":
        chosen = set(re.findall(r"logging\.([A-Z]+)", ast.unparse(function)))
        if chosen & set(_LEVELS.values()):
            yield LogCall(" or ".join(sorted(chosen)), _text(call.args[1]))


def _text(argument: ast.expr) -> str:
    return str(argument.value) if isinstance(argument, ast.Constant) else ast.unparse(argument)


def rendered(old: str) -> str:
    """Return the document; the last cells are those of the `old` document."""
    rows = [re.split(r" \| ", line.strip("| ")) for line in old.splitlines() if line.startswith("| ")]
    kept = {tuple(row[:-1]): row[-1] for row in rows if len(row) in {len(_CODES), len(_LINES)}}
    found = {LogCall(each.level, _code(each.text)) for each in log_lines()}
    lines = sorted(found, key=lambda line: line.text.strip("` "))
    codes = [(f"`{code}`", status, meaning) for code, status, meaning in error_codes()]
    return _HEAD + _table(_CODES, codes, kept) + _LOG_HEAD + _table(_LINES, lines, kept)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], kept: Mapping[tuple[str, ...], str]) -> str:
    body = ((*row, kept.get(tuple(row), "")) for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


if __name__ == "__main__":
    DOCUMENT.write_text(rendered(DOCUMENT.read_text() if DOCUMENT.exists() else ""))
