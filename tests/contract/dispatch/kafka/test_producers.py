"""Producers: deliveries share a producer, idle producers are closed, a stopped producer fails its unsent records."""

import asyncio
import threading

from confluent_kafka import KafkaError

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.idle_pool import IdlePool
from actors.dispatch.kafka_producer import SharedProducer
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.kafka.deliveries import dispatcher, spec


def test_deliveries_share_one_producer(kafka, topic):
    async def main(producers):
        before = threading.active_count()
        shared = spec(kafka.bootstrap, topic)
        outputs = await asyncio.gather(*(producers.send(shared, identity(f"exec_{n}")) for n in range(200)))
        return threading.active_count() - before, {output["offset"] for output in outputs}

    threads, offsets = run(dispatcher(), main)
    assert offsets == set(range(200))
    assert threads <= 2  # the producer's thread, and a thread for the lookup of the host name


def test_idle_producers_are_closed(kafka, topic):
    def producers_alive():
        return sum(thread.name == "te-kafka" for thread in threading.enumerate())

    async def main(producers):
        await producers.send(spec(kafka.bootstrap, topic), identity())
        await producers.sweep()
        kept = producers_alive()
        async with producers.producer(spec(kafka.bootstrap, topic)) as producer:
            await producers.sweep(idle_seconds=0)
            assert not producer.closed.is_set(), "a producer in use stays open"
        await producers.sweep(idle_seconds=0)
        assert producer.closed.is_set()
        await producers.send(spec(kafka.bootstrap, topic), identity())
        return kept

    assert run(dispatcher(), main) == 1
    assert producers_alive() == 0


def test_stopped_producer_fails_its_unsent_records(kafka):
    async def main(producers):
        missing = spec(kafka.bootstrap, "missing", timeout_ms=60_000)  # its records wait for the topic
        async with producers.producer(missing) as producer:
            await producer.ready()
            sending = asyncio.create_task(failure(producers, missing))
            await asyncio.sleep(0)
            producer.stop()
        return await sending

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "_PURGE_QUEUE" in error.message


def test_stopped_producer_fails_deliveries_that_wait_for_its_brokers():
    async def main(producers):
        unreachable = spec("127.0.0.1:1", timeout_ms=60_000)
        sending = asyncio.create_task(failure(producers, unreachable))
        await asyncio.sleep(0)  # the delivery waits for the producer first, and so gets the producer first
        async with producers.producer(unreachable) as producer:
            producer.stop()
        return await sending

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "the producer is closed" in error.message


async def permit_all(_brokers):
    """Check of brokers that refuses none."""


def test_last_error_keeps_the_cause_when_all_brokers_are_down():
    async def main():
        connection = {"bootstrap.servers": "127.0.0.1:1"}
        pool = IdlePool[SharedProducer]()
        producer = SharedProducer(connection, [], pool, permit_all, connection=connection)
        await producer.opened.wait()
        producer.stop()
        await producer.closed.wait()
        producer.note_error(KafkaError(KafkaError._AUTHENTICATION, "why"))  # noqa: SLF001 - the names of librdkafka's own errors
        producer.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))  # noqa: SLF001 - the names of librdkafka's own errors
        return producer.last_error

    assert asyncio.run(main()).str() == "why"
