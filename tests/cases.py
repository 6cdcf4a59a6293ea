"""Tables of cases: one test runs all cases of a rule and lists each failed case."""

import functools
import inspect
import os
import random
import reprlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

Test = Callable[..., None]
T = TypeVar("T")
IS_WHOLE = "TEST_FUZZ" in os.environ
"""Whether all cases run (`make fuzz`), instead of a choice that fits into each run of the suite."""


def choice_of(cases: Sequence[T], share: int) -> Sequence[T]:
    """Return all cases, or at random one in `share` of them, so that many runs of the suite try all."""
    return cases if IS_WHOLE else random.sample(cases, -(-len(cases) // share))


class Breaches:
    """Failures of the cases of one test, raised together when the `with` block ends."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._found and error is None:
            pytest.fail("\n".join((f"breaches: {len(self._found)}", *self._found)), pytrace=False)

    @contextmanager
    def case(self, *names: object) -> Iterator[None]:
        """Run one case; record a failure, or a skip, which would end all cases, and continue with the next case."""
        try:
            yield
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            if "pytest-timeout" in str(error):
                raise
            message = "".join(traceback.format_exception_only(error)).strip()
            self._found.append(f"{', '.join(map(reprlib.repr, names))}: {message}")


def each_case(names: str | tuple[str, ...], cases: Iterable[Any], *, ids: Iterable[str] = ()) -> Callable[[Test], Test]:
    """Run a test once with all cases, where `pytest.mark.parametrize` would make one test per case.

    Meant for many quick cases that share fixtures: setting up a test costs more than running such a case.
    """
    arguments = (names,) if isinstance(names, str) else names
    table = [(case,) if isinstance(names, str) else tuple(case) for case in cases]
    labels = [(label,) for label in ids] or table

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            with Breaches() as breaches:
                for label, values in zip(labels, table, strict=True):
                    with breaches.case(*label):
                        test(**dict(zip(arguments, values, strict=True)), **fixtures)

        signature = inspect.signature(test)
        fixtures = [value for name, value in signature.parameters.items() if name not in arguments]
        all_cases.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return all_cases

    return decorate
