"""Producers: shared by deliveries, closed when nobody uses them, and what they say at their end."""

import asyncio
import threading

from confluent_kafka import KafkaError

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.idle_pool import IdlePool
from actors.dispatch.kafka_producer import SharedProducer
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.kafka.deliveries import dispatcher, spec


def test_one_producer_is_shared(kafka, topic):
    async def main(producers):
        before = threading.active_count()
        one = spec(kafka.bootstrap, topic)
        outputs = await asyncio.gather(*(producers.send(one, identity(f"exec_{n}")) for n in range(200)))
        return threading.active_count() - before, {output["offset"] for output in outputs}

    threads, offsets = run(dispatcher(), main)
    assert offsets == set(range(200))
    assert threads <= 2  # the producer's, and one for the name


def test_producers_that_are_not_used_are_closed(kafka, topic):
    def producers_alive():
        return sum(thread.name == "te-kafka" for thread in threading.enumerate())

    async def main(producers):
        await producers.send(spec(kafka.bootstrap, topic), identity())
        await producers.sweep()
        kept = producers_alive()
        async with producers.producer(spec(kafka.bootstrap, topic)) as producer:
            await producers.sweep(idle_seconds=0)
            assert not producer.closed.is_set(), "somebody uses it"
        await producers.sweep(idle_seconds=0)
        assert producer.closed.is_set()
        await producers.send(spec(kafka.bootstrap, topic), identity())
        return kept

    assert run(dispatcher(), main) == 1
    assert producers_alive() == 0


def test_a_producer_that_is_stopped_reports_what_it_did_not_send():
    async def main(producers):
        unreachable = spec("127.0.0.1:1", timeout_ms=60_000)
        sending = asyncio.create_task(failure(producers, unreachable))
        await asyncio.sleep(0)  # it is the first to wait for the producer, and so the first to get it
        async with producers.producer(unreachable) as producer:
            producer.stop()
        return await sending

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "_PURGE_QUEUE" in error.message


def test_the_reason_counts_not_that_all_brokers_are_down():
    async def main():
        producer = SharedProducer({"bootstrap.servers": "127.0.0.1:1"}, [], IdlePool(SharedProducer.close))
        await producer.opened.wait()
        producer.stop()
        await producer.closed.wait()
        producer.note_error(KafkaError(KafkaError._AUTHENTICATION, "why"))  # noqa: SLF001 - the names of librdkafka's own errors
        producer.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))  # noqa: SLF001 - the names of librdkafka's own errors
        return producer.last_error

    assert asyncio.run(main()).str() == "why"
