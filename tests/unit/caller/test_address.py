"""Address and key of the service: invalid values are refused and never repeated in the error."""

import pytest
from task_executor_client import AsyncClient, Client

from tests.cases import each_case


@each_case("class_", [Client, AsyncClient])
@each_case(
    ("base_url", "key"),
    [
        ("te.example.org", "k"),
        ("ftp://te.example.org", "k"),
        ("https://user:hunter2@te.example.org", "k"),
        ("https://te.example.org?key=hunter2", "k"),
        ("https://te.example.org", ""),
        ("https://te.example.org", "hunter2\n"),
    ],
)
def test_invalid_address_or_key_is_refused_without_repeating_it(class_: type, base_url: str, key: str) -> None:
    with pytest.raises(ValueError, match=r"base_url|api_key") as refused:
        class_(base_url, key)
    assert "hunter2" not in str(refused.value)
