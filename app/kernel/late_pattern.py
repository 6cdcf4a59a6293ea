"""Late pattern: a regular expression of marshmallow that is compiled at its first use."""

import re
from typing import Any


class LatePattern:
    """A regular expression that is compiled at its first use."""

    __isabstractmethod__ = False  # ABCMeta reads it of each attribute of a validator

    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        return getattr(re.compile(self._pattern, self._flags), name)


def import_marshmallow() -> None:
    """Import marshmallow without compiling its pattern of mail domains, which no schema of this service uses.

    The pattern ignores the case of 65,000 letters: Python needs 45 ms for it, a tenth of a worker's imports.
    """
    compile_now = re.compile

    def compile_late(pattern: Any, flags: Any = 0) -> Any:
        is_slow = isinstance(pattern, str) and "\uffff" in pattern
        return LatePattern(pattern, flags) if is_slow else compile_now(pattern, flags)

    re.compile = compile_late
    try:
        import marshmallow  # noqa: F401, PLC0415
    finally:
        re.compile = compile_now
