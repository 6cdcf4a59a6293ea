"""Targets: the server to which a rendered spec resolves."""

import pytest

from app.catalog.specs import TRANSPORTS
from schema.states import EndpointType
from tests.cases import each_case

HTTP, KAFKA, REDIS = EndpointType.HTTP, EndpointType.KAFKA, EndpointType.REDIS_STREAM


@each_case(
    ("transport", "spec", "target"),
    [
        (HTTP, {"url": "https://api.example.com/a/b?c=http://d"}, "https:api.example.com:443"),
        (HTTP, {"url": "http://user:pass@Api.example.com/"}, "http:api.example.com:80"),
        (HTTP, {"url": "HTTP://127.0.0.1:8080"}, "http:127.0.0.1:8080"),
        (HTTP, {"url": "http://[2001:DB8::1]/"}, "http:[2001:db8::1]:80"),
        (KAFKA, {"bootstrap_servers": "b-2:9092, B-1:9092,b-2:9092"}, "kafka:b-1:9092,b-2:9092"),
        (KAFKA, {"bootstrap_servers": "[::1]:9092"}, "kafka:[::1]:9092"),
        (REDIS, {"redis_url": "redis://user:pass@cache/3?db=4"}, "redis:cache:6379"),
        (REDIS, {"redis_url": "rediss://:pass@cache:6380"}, "rediss:cache:6380"),
    ],
)
def test_target_is_scheme_host_and_port(transport: EndpointType, spec: dict[str, str], target: str) -> None:
    """A target contains no credentials, path or slash: it is shown to users and is a segment of URL paths."""
    assert TRANSPORTS[transport].target(spec) == target


@pytest.mark.parametrize(
    ("transport", "spec"),
    [
        (HTTP, {"url": "http://host:99999/"}),
        (HTTP, {"url": "http:///x"}),
        (KAFKA, {"bootstrap_servers": ""}),
        (REDIS, {"redis_url": "redis://"}),
    ],
)
def test_spec_without_a_host_has_no_target(transport: EndpointType, spec: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        TRANSPORTS[transport].target(spec)
