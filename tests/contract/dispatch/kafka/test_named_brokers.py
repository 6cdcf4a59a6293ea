"""Brokers that a cluster names: the egress guard checks them before a producer is used, and again while it is."""

import asyncio
from collections.abc import Iterator

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from actors.dispatch.kafka import KafkaDispatcher
from app.dev.servers import Tansu
from tests.contract.dispatch.dispatching import Opening, failure, identity, run
from tests.contract.dispatch.kafka.deliveries import fail, spec
from tests.contract.dispatch.kafka.hostile import HostileKafka
from tests.waiting import HUNG_SECONDS

NAMED = "127.0.0.2"
REFUSING = EgressGuard.from_settings("default", [], [f"{NAMED}/32"])


@pytest.fixture
def elsewhere() -> Iterator[Tansu]:
    """A broker on 127.0.0.1 that names itself as an address that the guard refuses."""
    with Tansu(advertised_host=NAMED) as server:
        yield server


def test_refused_broker_of_a_permitted_bootstrap_server_fails_permanently(elsewhere: Tansu) -> None:
    error = fail(elsewhere.bootstrap, guard=REFUSING)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)
    assert f"names a broker that is refused, {NAMED}:{elsewhere.port}" in error.message
    assert "TE_EGRESS_DENY" in error.message
    assert NAMED not in error.own_message


def test_permitted_broker_gets_its_records(kafka: Tansu, topic: str) -> None:
    async def main(producers):
        return await producers.send(spec(kafka.bootstrap, topic), identity())

    assert run(Opening(KafkaDispatcher, REFUSING), main)["partition"] == 0


def test_broker_that_a_cluster_names_later_is_refused() -> None:
    """The producer is replaced once a check refuses a broker; the next delivery reports the reason."""
    with HostileKafka(b"127.0.0.1") as cluster:

        async def main(producers):
            async with producers.producer(spec(cluster.bootstrap)) as producer:
                await producer.ready()
                cluster.advertised = NAMED.encode()
                await asyncio.wait_for(producer.closed.wait(), HUNG_SECONDS)
            return await failure(producers, spec(cluster.bootstrap))

        error = run(Opening(lambda network: KafkaDispatcher(network, check_seconds=0.01), REFUSING), main)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)


def test_cluster_with_too_many_brokers_is_refused() -> None:
    with HostileKafka(b"127.0.0.1", brokers=1_001) as cluster:
        error = fail(cluster.bootstrap, timeout_ms=30_000)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)


@pytest.mark.parametrize("name", [b"127.0.0.1:80/x", b"PLAINTEXT://127.0.0.1", b"", b"127.0.0.1,169.254.169.254"])
def test_broker_with_an_ambiguous_name_is_refused(name: bytes) -> None:
    with HostileKafka(name) as cluster:
        error = fail(cluster.bootstrap, guard=REFUSING)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
