"""Deliveries to Redis Streams: a dispatcher, a spec with its defaults, and what a send returns or raises."""

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.redis_stream import RedisStreamDispatcher
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, Opening, failure, identity, rendered, run


def dispatcher(guard=OPEN, size=10):
    return Opening(RedisStreamDispatcher, guard, per_host=size)


def spec(url, **fields):
    return rendered(
        EndpointType.REDIS_STREAM, {"redis_url": url, "stream": "s", "fields_template": {"a": "1"}, **fields}
    )


def send(url, who=None, **fields):
    return run(dispatcher(), lambda streams: streams.send(spec(url, **fields), who or identity()))


def fail(url, *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda streams: failure(streams, spec(url, **fields)))
