"""The shop of the pictures: its receivers, endpoints and schedules."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from app.dev.process.ports import free_port
from app.dev.receiver import Receiver
from app.dev.stack.stack_client import Api, Definition, endpoint, register
from schema.states import EndpointType

CHARGES, MAILS, TEXTS, IMAGES, STOCK, EXPORTS = NAMES = (
    *("charge-card", "send-mail", "send-sms", "resize-image", "sync-stock", "tenant-export"),
)
PATHS = {
    CHARGES: "/slow/20",
    MAILS: "/slow/4",
    TEXTS: "/status/422",  # refuses all: its dead letters need a person
    IMAGES: "/slow/40",
    STOCK: "/slow/10",
    EXPORTS: "/ok",
}
BROKEN = "/status/503"  # where a faulty version of charge-card sends
FLAKY = "/flaky/2"
TENANTS = ("acme", "beta", "delta", "gamma", "lambda", "omega", "sigma", "zeta")
ZONE = "Europe/Berlin"
_FIRST_PORT = 9101
_RETRIES = {"max_attempts": 3, "backoff": "fixed", "initial_delay_ms": 30_000}


@contextmanager
def receivers() -> Iterator[dict[str, str]]:
    """Start a receiver for each endpoint, since a breaker belongs to a host and port; yields their addresses."""
    with ExitStack() as opened:
        ports = enumerate(NAMES, start=_FIRST_PORT)
        found = {name: opened.enter_context(Receiver(port=free_port(port))) for port, name in ports}
        yield {name: receiver.base_url for name, receiver in found.items()}


def endpoint_of(name: str, address: str, path: str) -> Definition:
    """Return an endpoint that sends the fields of its jobs to a path of its receiver."""
    spec: Mapping[str, Any] = {
        "url": f"{address}{path}/{name}",
        "body_template": {"order": "{{input.order}}"},
        "timeout_ms": 5000,
    }
    return endpoint(EndpointType.HTTP, name, dict(spec), retry_policy=_RETRIES)


def open_shop(api: Api, addresses: Mapping[str, str]) -> None:
    """Register the endpoints, and create the schedules."""
    register(api, [endpoint_of(name, addresses[name], PATHS[name]) for name in NAMES])
    for schedule in _schedules():
        api.post("/jobs", {"trigger": "CRON", "timezone": ZONE} | schedule)


def _schedules() -> Iterator[dict[str, Any]]:
    """Yield the schedules; exports of tenants start in the same minute."""

    def made(name: str, cron: str, endpoint_name: str, team: str) -> dict[str, Any]:
        labels = {"team": team}
        return {"name": name, "cron": cron, "endpoint": endpoint_name, "labels": labels, "input": {"order": name}}

    yield made("sync-stock", "*/10 * * * *", STOCK, "shop")
    yield made("sync-prices", "5 * * * *", STOCK, "shop")
    yield made("nightly-report", "0 2 * * *", EXPORTS, "finance")
    yield made("invoices", "30 6 * * MON-FRI", MAILS, "finance")
    yield made("newsletter", "0 9 * * TUE", MAILS, "marketing")
    yield made("remind-carts", "15 8-20/2 * * *", MAILS, "marketing")
    yield made("warm-thumbnails", "*/30 * * * *", IMAGES, "shop")
    for tenant in TENANTS:
        yield made(f"export-{tenant}", "0 2 * * *", EXPORTS, "tenants")
