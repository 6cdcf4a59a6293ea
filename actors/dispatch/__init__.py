"""Sending: one dispatcher per transport, all on the event loop of the worker process."""

from collections.abc import Mapping

from actors.dispatch.base import Dispatcher
from actors.dispatch.egress import EgressGuard
from actors.dispatch.http import HttpDispatcher
from actors.dispatch.kafka import KafkaDispatcher
from actors.dispatch.redis_stream import RedisStreamDispatcher
from app.config import Settings
from schema.states import EndpointType


def open_dispatchers(settings: Settings) -> Mapping[EndpointType, Dispatcher]:
    """Make a dispatcher for each transport; each connects when it is first used, on the loop that uses it."""
    guard = EgressGuard.from_settings(settings.egress_policy, settings.egress_allow, settings.egress_deny)
    return {
        EndpointType.HTTP: HttpDispatcher(
            guard,
            connections=settings.worker_max_concurrent,
            connections_per_host=settings.connections_per_host,
        ),
        EndpointType.KAFKA: KafkaDispatcher(guard),
        EndpointType.REDIS_STREAM: RedisStreamDispatcher(guard, connections_per_host=settings.connections_per_host),
    }
