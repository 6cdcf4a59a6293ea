"""Which settings of a developer's environment reach the development stack."""

import pytest

from app.dev.stack.programs import product_environment


def test_an_empty_variable_does_not_replace_what_the_stack_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TE_SECRET_ENCRYPTION_KEY", "")
    monkeypatch.setenv("TE_LOG_LEVEL", "DEBUG")
    given = product_environment()
    assert "TE_SECRET_ENCRYPTION_KEY" not in given
    assert given["TE_LOG_LEVEL"] == "DEBUG"
