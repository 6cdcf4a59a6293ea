"""Database URLs: both engines through one code path."""

import pytest

from schema.url import database_url


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("postgresql://u:p@h:1/d", "postgresql+psycopg2"),
        ("postgres://u:p@h:1/d", "postgresql+psycopg2"),
        ("postgresql+psycopg2://u:p@h:1/d", "postgresql+psycopg2"),
        ("cockroachdb://u:p@h:1/d", "cockroachdb+psycopg2"),
    ],
)
def test_driver_is_set_and_the_rest_of_the_url_is_kept(given: str, driver: str) -> None:
    url = database_url(given)
    assert url.drivername == driver
    assert (url.username, url.password, url.host, url.port, url.database) == ("u", "p", "h", 1, "d")
