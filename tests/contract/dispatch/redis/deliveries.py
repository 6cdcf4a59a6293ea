"""Deliveries to Redis Streams: a dispatcher, a rendered spec, and the output or error of a send."""

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.redis_stream import RedisStreamDispatcher
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, Opening, failure, identity, rendered, run


def dispatcher(guard=OPEN):
    return Opening(RedisStreamDispatcher, guard)


def spec(url, **fields):
    return rendered(
        EndpointType.REDIS_STREAM, {"redis_url": url, "stream": "s", "fields_template": {"a": "1"}, **fields}
    )


def send(url, delivery=None, **fields):
    return run(dispatcher(), lambda streams: streams.send(spec(url, **fields), delivery or identity()))


def fail(url, *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda streams: failure(streams, spec(url, **fields)))
