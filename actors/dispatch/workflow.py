"""Workflows: nothing is sent. The feature stores the workflow, which takes the execution over from the worker."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.network import Network
from actors.dispatch.send_progress import Progress, bounded
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.queue.claiming.release import MIN_DEFERRAL_MS
from app.queue.executions.execution_model import DeliveryError, HandedOverError, NotSentError
from schema.states import EndpointType


class WorkflowDispatcher(Dispatcher):
    """Starts workflows on threads, because a start is a transaction."""

    def __init__(self, network: Network) -> None:
        self._start = network.starters.get(EndpointType.WORKFLOW)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Start the workflow of an attempt; raises HandedOverError once the workflow has the execution."""
        return await bounded(spec["timeout_ms"], identity, _explain, partial(self._hand_over, spec))

    async def _hand_over(self, spec: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        if self._start is None:
            raise DeliveryError("INTERNAL_ERROR", "this worker has no workflows", permanent=True)
        progress.begin_sending()
        identity = progress.identity
        # A start that outlives its time limit, or an abort, changes nothing: it checks in its transaction that the
        # worker still has the attempt.
        await asyncio.to_thread(self._start, identity.execution_id, identity.attempt, spec)
        raise HandedOverError


def _explain(error: Exception, progress: Progress) -> Exception:
    match error:
        case TimeoutError():
            return progress.timed_out("the workflow was not stored")
        case UnavailableError() | SQLAlchemyError():
            return NotSentError(explained(error), round(MIN_DEFERRAL_MS))
    return error
