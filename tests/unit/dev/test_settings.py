"""Settings that the development stack takes from a developer's environment."""

import pytest

from app.dev.stack.programs import product_environment


def test_empty_variable_does_not_replace_a_setting_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TE_SECRET_ENCRYPTION_KEY", "")
    monkeypatch.setenv("TE_LOG_LEVEL", "DEBUG")
    given = product_environment()
    assert "TE_SECRET_ENCRYPTION_KEY" not in given
    assert given["TE_LOG_LEVEL"] == "DEBUG"
