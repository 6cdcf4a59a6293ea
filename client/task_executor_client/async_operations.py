"""Operations of the service, asynchronous, with a class for each group.

Written by `make client` from the OpenAPI document; do not edit.
"""

from datetime import datetime, timedelta
from typing import Literal, Unpack

from . import models
from .call import Call
from .groups import AsyncGroup
from .pages import AsyncPages


class AsyncActors(AsyncGroup):
    """Operations on `actors`; `te` in the example is a client.

    Example:
        first = await te.actors.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        is_offered: bool | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Actor]:
        """List actors, last registered first, each with the processes that offer it.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            is_offered: True: a connected process offers it; false: none does.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Actor`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "actors.list",
            "GET",
            "/actors",
            query={"limit": limit, "cursor": cursor, "is_offered": is_offered},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, name: str, /, *, timeout: float | None = None) -> models.Actor:
        """Get an actor by its name, and the processes that offer it.

        Args:
            name: Name of the actor.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Actor`.

        Raises:
            errors.ActorNotFoundError: No process has registered an actor of that name, or its endpoint is
                deleted.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("actors.get", "GET", "/actors/{name}", path={"name": name}, timeout=timeout)
        answer: models.Actor = await self._sender.request(call)
        return answer

    def list_at_worker(
        self, worker_id: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Actor]:
        """List the actors that processes connected to a worker offer, each with these processes.

        Args:
            worker_id: Id of the worker.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Actor`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            errors.WorkerNotFoundError: No worker process has that id, or it ended more than a day ago.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "actors.list_at_worker",
            "GET",
            "/workers/{worker_id}/actors",
            path={"worker_id": worker_id},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncApiKeys(AsyncGroup):
    """Operations on `api_keys`; `te` in the example is a client.

    Example:
        first = await te.api_keys.list().first()
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.ApiKey]:
        """List API keys, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.ApiKey`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("api_keys.list", "GET", "/api-keys", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)


class AsyncAttempts(AsyncGroup):
    """Operations on `attempts`; `te` in the example is a client.

    Example:
        first = await te.attempts.list_uncertain().first()
    """

    def list_uncertain(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        uncertain: bool | None = None,
        endpoint: str | None = None,
        error_type: str | None = None,
        worker_id: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.UncertainAttempt]:
        """List attempts with an unknown outcome, newest first: the receiver may have got them.

        The receiver recognises them by the idempotency key, which all attempts of an execution share. A page may
        have fewer than `limit`, even none, if few of very many match: continue while there is a `cursor`.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            uncertain: `true`: attempts that failed and may have been delivered; None for `True`.
            endpoint: Only items with this endpoint; None for all.
            error_type: Only items with this error type, such as `TIMEOUT`; None for all.
            worker_id: The worker process of the current or latest attempt; with `status=RUNNING`, the executions
                that the process holds.
            created_after: Only items created at this time or later; None for no bound.
            created_before: Only items created before this time; None for no bound.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.UncertainAttempt`. Each page is requested when the iteration reaches it,
            so the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "attempts.list_uncertain",
            "GET",
            "/attempts",
            query={
                "limit": limit,
                "cursor": cursor,
                "uncertain": uncertain,
                "endpoint": endpoint,
                "error_type": error_type,
                "worker_id": worker_id,
                "created_after": created_after,
                "created_before": created_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncAudit(AsyncGroup):
    """Operations on `audit`; `te` in the example is a client.

    Example:
        first = await te.audit.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        action: Literal["create", "replace", "delete", "revoke", "flow", "drain"] | None = None,
        resource_type: Literal[
            "payload_spec",
            "config",
            "secret",
            "endpoint",
            "api_key",
            "routes",
            "queue",
            "worker",
            "notification_rule",
            "grant",
        ]
        | None = None,
        resource: str | None = None,
        after: str | datetime | None = None,
        before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.AuditEntry]:
        """List changes, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            actor: Name or id of an API key, or cli:USER.
            action: Only items with this action; None for all.
            resource_type: Only items with this resource type; None for all.
            resource: Only items with this resource; None for all.
            after: This time or later.
            before: Earlier than this time.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.AuditEntry`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "audit.list",
            "GET",
            "/audit",
            query={
                "limit": limit,
                "cursor": cursor,
                "actor": actor,
                "action": action,
                "resource_type": resource_type,
                "resource": resource,
                "after": after,
                "before": before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncBreakers(AsyncGroup):
    """Operations on `breakers`; `te` in the example is a client.

    Example:
        first = await te.breakers.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["closed", "open", "half_open"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Breaker]:
        """List breakers, last changed first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Breaker`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "breakers.list",
            "GET",
            "/breakers",
            query={"limit": limit, "cursor": cursor, "state": state},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, target: str, /, *, timeout: float | None = None) -> models.Breaker:
        """Get the breaker of a target.

        Args:
            target: Target of the breaker.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Breaker`.

        Raises:
            errors.BreakerNotFoundError: No recent delivery to that target has failed, so the target has no
                breaker: every delivery is sent.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("breakers.get", "GET", "/breakers/{target}", path={"target": target}, timeout=timeout)
        answer: models.Breaker = await self._sender.request(call)
        return answer

    def list_events(
        self, target: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.BreakerEvent]:
        """List the changes of a breaker, newest first; they are kept for as long as executions are.

        Args:
            target: Target of the breaker.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.BreakerEvent`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            errors.BreakerNotFoundError: No recent delivery to that target has failed, so the target has no
                breaker: every delivery is sent.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "breakers.list_events",
            "GET",
            "/breakers/{target}/events",
            path={"target": target},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def close(
        self, target: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Breaker:
        """Close the breaker of a target without a probe, and reset its counters.

        Workers apply it within a second. Closing a closed breaker changes nothing.

        Args:
            target: Target of the breaker.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Breaker`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.BreakerNotFoundError: No recent delivery to that target has failed, so the target has no
                breaker: every delivery is sent.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "breakers.close",
            "POST",
            "/breakers/{target}/close",
            path={"target": target},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Breaker = await self._sender.request(call)
        return answer


class AsyncBulkOperationPreviews(AsyncGroup):
    """Operations on `bulk_operation_previews`; `te` in the example is a client.

    Example:
        answer = await te.bulk_operation_previews.preview(
            action="cancel", wanted={"labels": {"team": "growth"}}, if_running="request"
        )
    """

    async def preview(
        self, *, timeout: float | None = None, **fields: Unpack[models.NewBulkOperation]
    ) -> models.BulkPreview:
        """Count the rows that a bulk operation would change, and show the first of them; changes nothing.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewBulkOperation`; `action` and `wanted` are required.

        Returns:
            The answer as `models.BulkPreview`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operation_previews.preview",
            "POST",
            "/bulk-operations/preview",
            body=fields,
            only_reads=True,
            timeout=timeout,
        )
        answer: models.BulkPreview = await self._sender.request(call)
        return answer


class AsyncBulkOperations(AsyncGroup):
    """Operations on `bulk_operations`; `te` in the example is a client.

    Example:
        answer = await te.bulk_operations.begin(
            action="cancel", wanted={"labels": {"team": "growth"}}, if_running="request"
        )
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.BulkOperation]:
        """List bulk operations, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.BulkOperation`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.list", "GET", "/bulk-operations", query={"limit": limit, "cursor": cursor}, timeout=timeout
        )
        return AsyncPages(self._sender, call)

    async def begin(
        self,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.NewBulkOperation],
    ) -> models.BulkOperation:
        """Start an operation that changes the executions of a filter, or its dead letters or repeating jobs.

        A scheduler starts it within seconds. It changes the executions that exist now, oldest first, each exactly
        once, also when processes die, in the same way as `POST /executions/{execution_id}/cancel` or `/retry`.
        Repeating jobs continue: only their executions change. `reschedule` moves waiting executions, also before
        a retry, never into the past. `archive` resolves open dead letters as `POST
        /dead-letters/{letter_id}/archive` does, all with the same `note`. `pause` and `resume` change CRON and
        INTERVAL jobs as `POST /jobs/{job_id}/pause` does. A filter without matches changes nothing. A filter by
        state only needs `all`.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewBulkOperation`; `action` and `wanted` are required.

        Returns:
            The answer as `models.BulkOperation`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.begin",
            "POST",
            "/bulk-operations",
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.request(call)
        return answer

    async def get(self, operation_id: str, /, *, timeout: float | None = None) -> models.BulkOperation:
        """Get a bulk operation and its progress.

        Args:
            operation_id: Id of the bulk operation.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.BulkOperation`.

        Raises:
            errors.BulkOperationNotFoundError: No bulk operation has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.get",
            "GET",
            "/bulk-operations/{operation_id}",
            path={"operation_id": operation_id},
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.request(call)
        return answer

    async def pause(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """Pause a bulk operation.

        Args:
            operation_id: Id of the bulk operation.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.BulkOperation`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.BulkOperationNotFoundError: No bulk operation has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.pause",
            "POST",
            "/bulk-operations/{operation_id}/pause",
            path={"operation_id": operation_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.request(call)
        return answer

    async def resume(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """Resume a paused bulk operation.

        Args:
            operation_id: Id of the bulk operation.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.BulkOperation`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.BulkOperationNotFoundError: No bulk operation has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.resume",
            "POST",
            "/bulk-operations/{operation_id}/resume",
            path={"operation_id": operation_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.request(call)
        return answer

    async def stop(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """Stop a bulk operation for good; its changes so far stay.

        Args:
            operation_id: Id of the bulk operation.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.BulkOperation`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.BulkOperationNotFoundError: No bulk operation has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "bulk_operations.stop",
            "POST",
            "/bulk-operations/{operation_id}/stop",
            path={"operation_id": operation_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.request(call)
        return answer


class AsyncCallbacks(AsyncGroup):
    """Operations on `callbacks`; `te` in the example is a client.

    Example:
        answer = await te.callbacks.schema()
    """

    async def schema(self, *, timeout: float | None = None) -> models.OutcomeSchema:
        """Get the JSON Schema of the input of callback jobs, for use in a payload spec.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.OutcomeSchema`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("callbacks.schema", "GET", "/callbacks/schema", timeout=timeout)
        answer: models.OutcomeSchema = await self._sender.request(call)
        return answer


class AsyncConfigs(AsyncGroup):
    """Operations on `configs`; `te` in the example is a client.

    Example:
        answer = await te.configs.create(
            name="email-service", values={"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"}
        )
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Config]:
        """List configs, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Config`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("configs.list", "GET", "/configs", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewConfig]
    ) -> models.Config:
        """Create a config.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewConfig`; `name` and `values` are required.

        Returns:
            The answer as `models.Config`; `etag(answer)` is its version for `if_match`; `replayed(answer)` is
            True if an earlier request with the same key produced it.

        Raises:
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "configs.create", "POST", "/configs", body=fields, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Config = await self._sender.request(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Config:
        """Get a config.

        Args:
            name: Name of the config.
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Config`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.ConfigNotFoundError: No config has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "configs.get",
            "GET",
            "/configs/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Config = await self._sender.request(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.ChangedConfig],
    ) -> models.Config:
        """Replace the values of a config, for executions that have not begun.

        An execution that has begun keeps the values of its first attempt; a manual retry uses the new values.

        Args:
            name: Name of the config.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedConfig`; `values` is required.

        Returns:
            The answer as `models.Config`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.ConfigNotFoundError: No config has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "configs.replace",
            "PUT",
            "/configs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.Config = await self._sender.request(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a config; refused while an endpoint or an unfinished job uses it.

        Args:
            name: Name of the config.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Raises:
            errors.ConfigNotFoundError: No config has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "configs.delete",
            "DELETE",
            "/configs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.request(call)


class AsyncCron(AsyncGroup):
    """Operations on `cron`; `te` in the example is a client.

    Example:
        answer = await te.cron.preview(
            cron="0 9 * * MON", timezone="Asia/Kolkata", count=1, after="2026-03-15T10:00:00Z"
        )
    """

    async def preview(
        self, *, timeout: float | None = None, **fields: Unpack[models.CronPreviewQuestion]
    ) -> models.CronPreview:
        """Preview a schedule: its rule in English and its next runs, with notes on clock changes.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.CronPreviewQuestion`; `cron` and `timezone` are required.

        Returns:
            The answer as `models.CronPreview`.

        Raises:
            errors.InvalidCronError: The cron expression is malformed, or never fires.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("cron.preview", "POST", "/cron/preview", body=fields, only_reads=True, timeout=timeout)
        answer: models.CronPreview = await self._sender.request(call)
        return answer


class AsyncDeadLetters(AsyncGroup):
    """Operations on `dead_letters`; `te` in the example is a client.

    Example:
        answer = await te.dead_letters.redrive(
            letter_id, endpoint="send-welcome-email", input={"user_id": "u_abc", "order_id": "order-1234"}
        )
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["open", "resolved"] | None = None,
        endpoint: str | None = None,
        error_type: str | None = None,
        labels: str | None = None,
        failed_after: str | datetime | None = None,
        failed_before: str | datetime | None = None,
        group: str | None = None,
        letter_id: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.DeadLetter]:
        """List dead letters, latest failure first.

        A page may have fewer letters than `limit`, even none, if few of very many match `labels` or `error_type`:
        continue as long as there is a cursor.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for `open`.
            endpoint: Only items with this endpoint; None for all.
            error_type: Only items with this error type, such as `HTTP_ERROR`; None for all.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            failed_after: Only items that failed at this time or later; None for no bound.
            failed_before: Only items that failed before this time; None for no bound.
            group: `group` of `GET /dead-letters/groups`.
            letter_id: These dead letters: one id, or up to 100 separated by commas.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.DeadLetter`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.list",
            "GET",
            "/dead-letters",
            query={
                "limit": limit,
                "cursor": cursor,
                "state": state,
                "endpoint": endpoint,
                "error_type": error_type,
                "labels": labels,
                "failed_after": failed_after,
                "failed_before": failed_before,
                "group": group,
                "letter_id": letter_id,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, letter_id: str, /, *, timeout: float | None = None) -> models.DeadLetterView:
        """Get a dead letter with its execution and its attempts.

        Args:
            letter_id: Id of the dead letter.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.DeadLetterView`.

        Raises:
            errors.DeadLetterNotFoundError: No dead letter has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.get", "GET", "/dead-letters/{letter_id}", path={"letter_id": letter_id}, timeout=timeout
        )
        answer: models.DeadLetterView = await self._sender.request(call)
        return answer

    async def redrive(
        self,
        letter_id: str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.Redrive],
    ) -> models.DeadLetter:
        """Redrive a dead letter, which resolves it.

        With `{}` its execution gets a full set of new attempts by its retry policy, with the same idempotency key
        and the same version of the endpoint. With an `endpoint` (its own or another) or an `input`, a new
        IMMEDIATE job is created with the name, labels and callbacks of the old job, at the same endpoint also
        with its queue and priority; it is validated like any other job. Repeating the same request changes
        nothing. The status is 409 if the letter was resolved in another way.

        Args:
            letter_id: Id of the dead letter.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.Redrive`; all are optional.

        Returns:
            The answer as `models.DeadLetter`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.DeadLetterNotFoundError: No dead letter has that id.
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            errors.InputValidationFailedError: The job's input does not match the endpoint's payload spec.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.redrive",
            "POST",
            "/dead-letters/{letter_id}/redrive",
            path={"letter_id": letter_id},
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.DeadLetter = await self._sender.request(call)
        return answer

    async def archive(
        self,
        letter_id: str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.Archive],
    ) -> models.DeadLetter:
        """Archive a dead letter: it is resolved without a retry, and deleted after the retention.

        Args:
            letter_id: Id of the dead letter.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.Archive`; `note` is required.

        Returns:
            The answer as `models.DeadLetter`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.DeadLetterNotFoundError: No dead letter has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.archive",
            "POST",
            "/dead-letters/{letter_id}/archive",
            path={"letter_id": letter_id},
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.DeadLetter = await self._sender.request(call)
        return answer

    async def groups(
        self,
        *,
        state: Literal["open", "resolved"] | None = None,
        endpoint: str | None = None,
        error_type: str | None = None,
        labels: str | None = None,
        failed_after: str | datetime | None = None,
        failed_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> models.LetterGroups:
        """Group the newest dead letters of a filter by endpoint, error, status of the answer and form of the
        message.

        Up to 10,000 letters are read, for a quarter of a second.

        Args:
            state: Only items with this state; None for `open`.
            endpoint: Only items with this endpoint; None for all.
            error_type: Only items with this error type, such as `HTTP_ERROR`; None for all.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            failed_after: Only items that failed at this time or later; None for no bound.
            failed_before: Only items that failed before this time; None for no bound.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.LetterGroups`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.groups",
            "GET",
            "/dead-letters/groups",
            query={
                "state": state,
                "endpoint": endpoint,
                "error_type": error_type,
                "labels": labels,
                "failed_after": failed_after,
                "failed_before": failed_before,
            },
            timeout=timeout,
        )
        answer: models.LetterGroups = await self._sender.request(call)
        return answer

    async def since(self, letter_id: str, /, *, timeout: float | None = None) -> models.SinceFailure:
        """List the changes since a failure, and count later executions of the endpoint by their ends.

        Args:
            letter_id: Id of the dead letter.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.SinceFailure`.

        Raises:
            errors.DeadLetterNotFoundError: No dead letter has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "dead_letters.since",
            "GET",
            "/dead-letters/{letter_id}/since",
            path={"letter_id": letter_id},
            timeout=timeout,
        )
        answer: models.SinceFailure = await self._sender.request(call)
        return answer


class AsyncDoctor(AsyncGroup):
    """Operations on `doctor`; `te` in the example is a client.

    Example:
        answer = await te.doctor.get()
    """

    async def get(self, *, timeout: float | None = None) -> models.Doctor:
        """Find problems of the database and its rows, as `flask doctor` does; repairs nothing.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Doctor`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("doctor.get", "GET", "/doctor", timeout=timeout)
        answer: models.Doctor = await self._sender.request(call)
        return answer


class AsyncEndpointVersions(AsyncGroup):
    """Operations on `endpoint_versions`; `te` in the example is a client.

    Example:
        first = await te.endpoint_versions.list(name).first()
    """

    def list(
        self, name: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.EndpointVersion]:
        """List the versions of an endpoint, newest first; also of a deleted endpoint.

        Args:
            name: Name of the endpoint.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.EndpointVersion`. Each page is requested when the iteration reaches it,
            so the iteration raises the errors.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoint_versions.list",
            "GET",
            "/endpoints/{name}/versions",
            path={"name": name},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, name: str, version: str, /, *, timeout: float | None = None) -> models.EndpointVersion:
        """Get a version of an endpoint.

        Args:
            name: Name of the endpoint.
            version: Name of the version.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.EndpointVersion`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.EndpointVersionNotFoundError: The endpoint has no version of that number.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoint_versions.get",
            "GET",
            "/endpoints/{name}/versions/{version}",
            path={"name": name, "version": version},
            timeout=timeout,
        )
        answer: models.EndpointVersion = await self._sender.request(call)
        return answer


class AsyncEndpoints(AsyncGroup):
    """Operations on `endpoints`; `te` in the example is a client.

    Example:
        answer = await te.endpoints.create(
            name="send-welcome-email",
            type="HTTP",
            payload_spec="send-welcome-email-input",
            config="email-service",
            spec={
                "url": "{{config.api_base_url}}/emails/welcome",
                "method": "POST",
                "headers": {
                    "Authorization": "Bearer {{secret.email_api_key}}",
                    "Content-Type": "application/json",
                },
                "body_template": {"user_id": "{{input.user_id}}", "sender": "{{config.sender}}"},
                "timeout_ms": 5000,
                "expected_status_codes": [200, 201, 202, 204],
            },
            retry_policy={
                "max_attempts": 3,
                "backoff": "exponential",
                "initial_delay_ms": 1000,
                "max_delay_ms": 30000,
            },
        )
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        inline: bool | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Endpoint]:
        """List endpoints, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            inline: List the endpoints of jobs with `url`, instead of the others; None for `False`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Endpoint`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.list",
            "GET",
            "/endpoints",
            query={"limit": limit, "cursor": cursor, "inline": inline},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewEndpoint]
    ) -> models.Endpoint:
        """Register an endpoint.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewEndpoint`; `name`, `spec` and `type` are required.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`; `replayed(answer)` is
            True if an earlier request with the same key produced it.

        Raises:
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            errors.InvalidConfigRefError: The endpoint names a config that does not exist.
            errors.InvalidPayloadSpecRefError: The endpoint names a payload spec that does not exist.
            errors.TemplateResolutionFailedError: A template is malformed, or a variable in it cannot be resolved.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.create", "POST", "/endpoints", body=fields, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Get an endpoint.

        Args:
            name: Name of the endpoint.
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.get",
            "GET",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.ChangedEndpoint],
    ) -> models.Endpoint:
        """Replace an endpoint by a new version, for jobs created from now on.

        Args:
            name: Name of the endpoint.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedEndpoint`; `spec` and `type` are required.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            errors.InvalidConfigRefError: The endpoint names a config that does not exist.
            errors.InvalidPayloadSpecRefError: The endpoint names a payload spec that does not exist.
            errors.TemplateResolutionFailedError: A template is malformed, or a variable in it cannot be resolved.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.replace",
            "PUT",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def patch(
        self, name: str, /, *, if_match: str | None = None, timeout: float | None = None, **fields: Unpack[models.Flow]
    ) -> models.Endpoint:
        """Change the queue, priority, limits or breaker of an endpoint without a new version.

        Limits and breaker apply within a second, also to waiting executions. Queue and priority apply to
        executions created from now on, and the key of limits to jobs created from now on.

        Args:
            name: Name of the endpoint.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.Flow`; all are optional.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            errors.TemplateResolutionFailedError: A template is malformed, or a variable in it cannot be resolved.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.patch",
            "PATCH",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete an endpoint; refused while it has an unretired repeating job or an unfinished execution.

        Args:
            name: Name of the endpoint.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.delete",
            "DELETE",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.request(call)

    async def pause(
        self, name: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Pause an endpoint: within a second its executions stop starting; running attempts continue.

        Its jobs are still accepted, and its executions wait. Pausing a paused endpoint changes nothing.

        Args:
            name: Name of the endpoint.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`; `replayed(answer)` is
            True if an earlier request with the same key produced it.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.pause",
            "POST",
            "/endpoints/{name}/pause",
            path={"name": name},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def resume(
        self, name: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Resume an endpoint: its executions start again, including the waiting executions.

        Args:
            name: Name of the endpoint.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Endpoint`; `etag(answer)` is its version for `if_match`; `replayed(answer)` is
            True if an earlier request with the same key produced it.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.resume",
            "POST",
            "/endpoints/{name}/resume",
            path={"name": name},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.request(call)
        return answer

    async def limits(self, name: str, /, *, key: str | None = None, timeout: float | None = None) -> models.LimitsState:
        """Get the running and waiting executions of a limited endpoint, and the number that may start.

        Args:
            name: Name of the endpoint.
            key: A value of `per_key.key`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.LimitsState`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "endpoints.limits",
            "GET",
            "/endpoints/{name}/limits",
            path={"name": name},
            query={"key": key},
            timeout=timeout,
        )
        answer: models.LimitsState = await self._sender.request(call)
        return answer


class AsyncEvents(AsyncGroup):
    """Operations on `events`; `te` in the example is a client.

    Example:
        answer = await te.events.list()
    """

    async def list(
        self,
        *,
        kind: str | None = None,
        endpoint: str | None = None,
        job_id: str | None = None,
        workflow_id: str | None = None,
        labels: str | None = None,
        after: str | None = None,
        since: str | datetime | None = None,
        limit: int | None = None,
        last_event_id: str | None = None,
        timeout: float | None = None,
    ) -> models.EventPage:
        """List events, earliest first; with `Accept: text/event-stream`, stream them.

        A page may have fewer events than `limit`, even none: continue with its `next`, now or later. A stream
        (Server-Sent Events) starts now, unless `after`, `Last-Event-ID` or `since` is given; events arrive about
        a second late. A client that reconnects with its last event id misses nothing and gets nothing twice. The
        status is 410 if the following events were deleted already, or if the id is ahead of the database's clock:
        start again with `since`.

        Args:
            kind: Kinds or groups of kinds, separated by commas.
            endpoint: Only items with this endpoint; None for all.
            job_id: Only items with this job id; None for all.
            workflow_id: Changes of a workflow, and events of the jobs and executions of its nodes.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            after: The id of an event, or `next` of the previous page: only later events are returned.
            since: Without `after`: events from this instant on.
            limit: Items per page, 1 to 200; None for `50`.
            last_event_id: Of a stream: the id of the last event received; same as `after`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.EventPage`.

        Raises:
            errors.EventsExpiredError: Reading cannot continue at that position: later events were deleted, or it
                is ahead of the database's clock.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "events.list",
            "GET",
            "/events",
            query={
                "kind": kind,
                "endpoint": endpoint,
                "job_id": job_id,
                "workflow_id": workflow_id,
                "labels": labels,
                "after": after,
                "since": since,
                "limit": limit,
            },
            headers={"Last-Event-ID": last_event_id},
            timeout=timeout,
        )
        answer: models.EventPage = await self._sender.request(call)
        return answer


class AsyncExecutions(AsyncGroup):
    """Operations on `executions`; `te` in the example is a client.

    Example:
        first = await te.executions.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
        | str
        | None = None,
        endpoint: str | None = None,
        queue: str | None = None,
        limit_key: str | None = None,
        worker_id: str | None = None,
        error_type: str | None = None,
        uncertain: bool | None = None,
        late_over: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        scheduled_after: str | datetime | None = None,
        scheduled_before: str | datetime | None = None,
        execution_id: str | None = None,
        job_id: str | None = None,
        name: str | None = None,
        labels: str | None = None,
        idempotency_key: str | None = None,
        idempotency_key_prefix: str | None = None,
        workflow: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Execution]:
        """List executions, newest first.

        A page with filters other than status, endpoint, job and creation time may have fewer than `limit`, even
        none, if matches are rare: continue while there is a `cursor`. A bulk operation has the same filter.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            status: One, or several separated by commas.
            endpoint: Only items with this endpoint; None for all.
            queue: Only items with this queue, such as `bulk`; None for all.
            limit_key: Key of `limits.per_key`.
            worker_id: The worker process of the current or latest attempt; with `status=RUNNING`, the executions
                that the process holds.
            error_type: Of the latest attempt that has ended; for `archive` that of the dead letter.
            uncertain: `true`: an attempt may have been delivered although it failed; `false`: none.
            late_over: Began later than this after the due time of its latest attempt, or has waited for longer
                since.
            created_after: Only items created at this time or later; None for no bound.
            created_before: Only items created before this time; None for no bound.
            scheduled_after: Only items with this scheduled after; None for all.
            scheduled_before: Only items with this scheduled before; None for all.
            execution_id: These executions: one id, or up to 100 separated by commas.
            job_id: Only items with this job id; None for all.
            name: Of their jobs.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            idempotency_key: Idempotency key of their jobs; None for a random key, which is the same on each try.
            idempotency_key_prefix: Prefix of the idempotency keys of their jobs.
            workflow: Id of a workflow: its nodes and items in their order; excludes other filters.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Execution`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.list",
            "GET",
            "/executions",
            query={
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "endpoint": endpoint,
                "queue": queue,
                "limit_key": limit_key,
                "worker_id": worker_id,
                "error_type": error_type,
                "uncertain": uncertain,
                "late_over": late_over,
                "created_after": created_after,
                "created_before": created_before,
                "scheduled_after": scheduled_after,
                "scheduled_before": scheduled_before,
                "execution_id": execution_id,
                "job_id": job_id,
                "name": name,
                "labels": labels,
                "idempotency_key": idempotency_key,
                "idempotency_key_prefix": idempotency_key_prefix,
                "workflow": workflow,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, execution_id: str, /, *, timeout: float | None = None) -> models.Execution:
        """Get an execution.

        Args:
            execution_id: Id of the execution.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Execution`.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.get", "GET", "/executions/{execution_id}", path={"execution_id": execution_id}, timeout=timeout
        )
        answer: models.Execution = await self._sender.request(call)
        return answer

    def list_attempts(
        self, execution_id: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Attempt]:
        """List the attempts of an execution, latest first.

        Args:
            execution_id: Id of the execution.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Attempt`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.list_attempts",
            "GET",
            "/executions/{execution_id}/attempts",
            path={"execution_id": execution_id},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    def list_logs(
        self,
        execution_id: str,
        /,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        level: Literal["DEBUG", "INFO", "WARN", "ERROR"] | None = None,
        attempt_number: int | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.LogLine]:
        """List the log lines of an execution, latest first.

        Args:
            execution_id: Id of the execution.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            level: Only items with this level; None for all.
            attempt_number: Only items with this attempt number; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.LogLine`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.list_logs",
            "GET",
            "/executions/{execution_id}/logs",
            path={"execution_id": execution_id},
            query={"limit": limit, "cursor": cursor, "level": level, "attempt_number": attempt_number},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def cancel(
        self,
        execution_id: str,
        /,
        *,
        if_running: Literal["request", "abort"] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> models.Execution:
        """Cancel an execution that has not begun; with `if_running`, a running execution too (202).

        With `if_running=request`, the execution ends after its current attempt. With `if_running=abort`, its
        worker aborts the attempt within about a second, for HTTP by closing the connection. The error then has
        `may_have_been_delivered`; an attempt that has sent nothing is not recorded. If the attempt succeeds
        first, the execution is a SUCCESS. 409 if the execution has ended.

        Args:
            execution_id: Id of the execution.
            if_running: `request` (202): the current attempt is the last; `abort` (202): the current attempt is
                also aborted; absent: 409 if an execution is running.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Execution`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            errors.ExecutionNotCancellableError: The execution is running or final.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.cancel",
            "POST",
            "/executions/{execution_id}/cancel",
            path={"execution_id": execution_id},
            query={"if_running": if_running},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Execution = await self._sender.request(call)
        return answer

    async def retry(
        self, execution_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Execution:
        """Queue a FAILED or CANCELLED execution again, due now, with the attempts of its retry policy added.

        This resolves its dead letter. 409 if the dead letter was archived, or redriven as a new job; the message
        names the new execution.

        Args:
            execution_id: Id of the execution.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Execution`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.retry",
            "POST",
            "/executions/{execution_id}/retry",
            path={"execution_id": execution_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Execution = await self._sender.request(call)
        return answer

    async def history(self, execution_id: str, /, *, timeout: float | None = None) -> models.History:
        """List all state changes of an execution, earliest first.

        A very long history has only the creation and the latest changes; `truncated` is then true.

        Args:
            execution_id: Id of the execution.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.History`.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.history",
            "GET",
            "/executions/{execution_id}/history",
            path={"execution_id": execution_id},
            timeout=timeout,
        )
        answer: models.History = await self._sender.request(call)
        return answer

    async def explain(self, execution_id: str, /, *, timeout: float | None = None) -> models.Explanation:
        """Explain the state of an execution: a reason code and a sentence.

        Args:
            execution_id: Id of the execution.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Explanation`.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.explain",
            "GET",
            "/executions/{execution_id}/explain",
            path={"execution_id": execution_id},
            timeout=timeout,
        )
        answer: models.Explanation = await self._sender.request(call)
        return answer

    async def request(self, execution_id: str, /, *, timeout: float | None = None) -> models.Request:
        """Show the request that the next attempt of an execution would send, rendered now, with names for secrets.

        Sent requests are not stored. All attempts have the same version of the endpoint and the same revision of
        configs, so only secrets may have changed since.

        Args:
            execution_id: Id of the execution.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Request`.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.request",
            "GET",
            "/executions/{execution_id}/request",
            path={"execution_id": execution_id},
            timeout=timeout,
        )
        answer: models.Request = await self._sender.request(call)
        return answer

    async def result(
        self, execution_id: str, /, *, wait: str | None = None, timeout: float | None = None
    ) -> models.Result:
        """Get the result of an execution, optionally after a `wait` for it; 202 if the execution has not ended.

        A wait ends up to a quarter of the time waited after the execution, at most half a second. A process lets
        a limited number of requests wait (`TE_WEB_WAITING`); beyond it the answer is 503, or 429 if one API key
        has too many waiting requests. 410 if the endpoint keeps results for a shorter time than executions, and
        the result was deleted.

        Args:
            execution_id: Id of the execution.
            wait: Wait for the end of the execution, up to `60s`; no wait when absent.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Result`.

        Raises:
            errors.ExecutionNotFoundError: No execution has that id.
            errors.ResultExpiredError: The execution has ended and its result was deleted: the endpoint's
                `result_retention` has passed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "executions.result",
            "GET",
            "/executions/{execution_id}/result",
            path={"execution_id": execution_id},
            query={"wait": wait},
            timeout=timeout,
        )
        answer: models.Result = await self._sender.request(call)
        return answer


class AsyncExplanations(AsyncGroup):
    """Operations on `explanations`; `te` in the example is a client.

    Example:
        answer = await te.explanations.explain(executions=["exec_0198f0"])
    """

    async def explain(
        self, *, timeout: float | None = None, **fields: Unpack[models.Explain]
    ) -> models.ExplainedExecutions:
        """Explain up to 50 executions, as `GET /executions/{execution_id}/explain` does each.

        Executions that wait in the same partition are read together. After a second the rest is left out.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.Explain`; `executions` is required.

        Returns:
            The answer as `models.ExplainedExecutions`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("explanations.explain", "POST", "/explain", body=fields, only_reads=True, timeout=timeout)
        answer: models.ExplainedExecutions = await self._sender.request(call)
        return answer


class AsyncFigures(AsyncGroup):
    """Operations on `figures`; `te` in the example is a client.

    Example:
        answer = await te.figures.figures()
    """

    async def figures(self, *, timeout: float | None = None) -> models.Figures:
        """Show queues, endpoints that are held back, breakers, workers, schedules and dead letters.

        A web process reads the figures once in 2 s, however many clients ask.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Figures`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("figures.figures", "GET", "/stats/figures", timeout=timeout)
        answer: models.Figures = await self._sender.request(call)
        return answer

    async def endpoints(
        self,
        *,
        window: str | int | timedelta | None = None,
        sort: Literal["trouble", "failed", "lateness", "waiting", "letters", "attempts", "name"] | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> models.EndpointStates:
        """List endpoints by trouble: breakers, failures, lateness, pauses, limits and dead letters.

        Deliveries come from the counted slots (`GET /stats/history`). A web process reads a window once in 2 s.

        Args:
            window: Length of time until now; default `1h`; None for `3600000`.
            sort: Only items with this sort; None for `trouble`.
            limit: Items per page, 1 to 1,000; None for `100`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.EndpointStates`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "figures.endpoints",
            "GET",
            "/stats/endpoints",
            query={"window": window, "sort": sort, "limit": limit},
            timeout=timeout,
        )
        answer: models.EndpointStates = await self._sender.request(call)
        return answer


class AsyncHealth(AsyncGroup):
    """Operations on `health`; `te` in the example is a client.

    Example:
        answer = await te.health.live()
    """

    async def live(self, *, timeout: float | None = None) -> models.Health:
        """Check that the process answers.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Health`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("health.live", "GET", "/health/live", timeout=timeout)
        answer: models.Health = await self._sender.request(call)
        return answer

    async def ready(self, *, timeout: float | None = None) -> models.Health:
        """Check that the database can be reached and is migrated, as of at most a second ago; 503 otherwise.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Health`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("health.ready", "GET", "/health/ready", timeout=timeout)
        answer: models.Health = await self._sender.request(call)
        return answer


class AsyncHistory(AsyncGroup):
    """Operations on `history`; `te` in the example is a client.

    Example:
        answer = await te.history.get()
    """

    async def get(
        self,
        *,
        last: str | int | timedelta | None = None,
        from_: str | datetime | None = None,
        until: str | datetime | None = None,
        step: int | None = None,
        endpoint: str | None = None,
        queue: str | None = None,
        histograms: bool | None = None,
        timeout: float | None = None,
    ) -> models.DeliveryHistory:
        """Show how many deliveries ended in each step of a period, how late they started and how long they took.

        A scheduler counts each slot of 10 s once, some seconds after its end. Slots are kept as they are for 3
        hours, in minutes for 3 days, and in hours for TE_ROLLUP_DAYS. The TE_ROLLUP_ENDPOINTS busiest endpoints
        of a slot have counts of their own; the rest share a sum (`endpoint=*`).

        Args:
            last: Without `from`: length of the period until `until`; default `1h`.
            from_: Only items with this from; None for all.
            until: Default: now.
            step: Seconds of a point, a multiple of 10; default: 720 points at most, from the slots that are kept,
                10 to 86,400.
            endpoint: Only this endpoint; `*`: the sum of endpoints that are not among the busiest of a slot.
            queue: Gauges of this queue instead of the whole fleet.
            histograms: With the counts of each class; None for `False`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.DeliveryHistory`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "history.get",
            "GET",
            "/stats/history",
            query={
                "last": last,
                "from": from_,
                "until": until,
                "step": step,
                "endpoint": endpoint,
                "queue": queue,
                "histograms": histograms,
            },
            timeout=timeout,
        )
        answer: models.DeliveryHistory = await self._sender.request(call)
        return answer


class AsyncJobs(AsyncGroup):
    """Operations on `jobs`; `te` in the example is a client.

    Example:
        answer = await te.jobs.create(
            endpoint="send-welcome-email",
            trigger="IMMEDIATE",
            idempotency_key="order-1234-welcome-email",
            input={"user_id": "u_abc", "order_id": "order-1234"},
        )
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["ACTIVE", "PAUSED", "RETIRED"] | None = None,
        trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"] | None = None,
        endpoint: str | None = None,
        name: str | None = None,
        labels: str | None = None,
        queue: str | None = None,
        workflow: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Job]:
        """List jobs, newest first.

        A page may have fewer jobs than `limit`, even none: it holds at most 4 MiB of inputs, and a slow search
        for rare jobs is cut short. Continue while there is a `cursor`.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            status: Only items with this status; None for all.
            trigger: Only items with this trigger; None for all.
            endpoint: Only items with this endpoint; None for all.
            name: Only items with this name, such as `Daily report`; None for all.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            queue: Jobs with a queue of their own that has this name.
            workflow: Id of a workflow: its nodes and items in their order; excludes other filters.
            created_after: Only items created at this time or later; None for no bound.
            created_before: Only items created before this time; None for no bound.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Job`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.list",
            "GET",
            "/jobs",
            query={
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "trigger": trigger,
                "endpoint": endpoint,
                "name": name,
                "labels": labels,
                "queue": queue,
                "workflow": workflow,
                "created_after": created_after,
                "created_before": created_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create(
        self, *, prefer: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewJob]
    ) -> models.CreatedJob:
        """Create a job. A second request with the idempotency key gets 200 with the first job, whatever its body.

        With `Prefer: wait=10`, the answer comes when the job's execution has ended and includes its `result`;
        after 10 seconds, the answer is 202 with the `Location` of the result. Repeating the request waits for the
        same job.

        With `url` instead of `endpoint`, `body` is sent there as JSON. The service keeps an endpoint for each
        different request with `url`, without `body` and the time.

        Args:
            prefer: `wait=10`: answer when the job's execution has ended, with its `result`, or with 202 after 10
                seconds (60 at most); `respond-async`: answer 202 at once; None for an immediate answer.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewJob`; all are optional.

        Returns:
            The answer as `models.CreatedJob`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.InputValidationFailedError: The job's input does not match the endpoint's payload spec.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            errors.InvalidCronError: The cron expression is malformed, or never fires.
            errors.TemplateResolutionFailedError: A template is malformed, or a variable in it cannot be resolved.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.create",
            "POST",
            "/jobs",
            headers={"Prefer": prefer},
            body=fields,
            key=fields.get("idempotency_key"),
            takes_key=True,
            key_in_body=True,
            timeout=timeout,
        )
        answer: models.CreatedJob = await self._sender.request(call)
        return answer

    async def get(self, job_id: str, /, *, timeout: float | None = None) -> models.Job:
        """Get a job.

        Args:
            job_id: Id of the job.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Job`.

        Raises:
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("jobs.get", "GET", "/jobs/{job_id}", path={"job_id": job_id}, timeout=timeout)
        answer: models.Job = await self._sender.request(call)
        return answer

    async def update(
        self, job_id: str, /, *, timeout: float | None = None, **fields: Unpack[models.ChangedJob]
    ) -> models.Job:
        """Replace a CRON or INTERVAL job by its next version, which has a new id; the old version is RETIRED.

        The new version uses the current endpoint. Executions of the old version that have not begun are
        cancelled; executions that have begun run to their end, retries included.

        Args:
            job_id: Id of the job.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedJob`; all are optional.

        Returns:
            The answer as `models.Job`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.JobNotFoundError: No job has that id.
            errors.JobNotUpdatableError: Only a CRON or INTERVAL job that is not retired can be updated.
            errors.InputValidationFailedError: The job's input does not match the endpoint's payload spec.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            errors.InvalidCronError: The cron expression is malformed, or never fires.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("jobs.update", "PUT", "/jobs/{job_id}", path={"job_id": job_id}, body=fields, timeout=timeout)
        answer: models.Job = await self._sender.request(call)
        return answer

    async def patch(
        self, job_id: str, /, *, timeout: float | None = None, **fields: Unpack[models.PatchedJob]
    ) -> models.Job:
        """Pause or resume a job with `status`, or replace it as PUT does.

        Args:
            job_id: Id of the job.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.PatchedJob`; all are optional.

        Returns:
            The answer as `models.Job`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.JobNotFoundError: No job has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.JobNotUpdatableError: Only a CRON or INTERVAL job that is not retired can be updated.
            errors.InputValidationFailedError: The job's input does not match the endpoint's payload spec.
            errors.InvalidCallbackError: An endpoint to call back does not exist, refuses outcomes, or leads back
                to the calling endpoint.
            errors.InvalidCronError: The cron expression is malformed, or never fires.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("jobs.patch", "PATCH", "/jobs/{job_id}", path={"job_id": job_id}, body=fields, timeout=timeout)
        answer: models.Job = await self._sender.request(call)
        return answer

    async def cancel(
        self,
        job_id: str,
        /,
        *,
        if_running: Literal["request", "abort"] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> models.Job:
        """Retire a job and cancel its executions that have not begun; 409 if a one-shot job's execution runs or has
        ended.

        Executions of a CRON or INTERVAL job that have begun run to their end, retries included. With
        `if_running=request` (202), running executions end after their current attempt. With `if_running=abort`
        (202), that attempt is aborted.

        Args:
            job_id: Id of the job.
            if_running: `request` (202): the current attempt is the last; `abort` (202): the current attempt is
                also aborted; absent: 409 if an execution is running.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Job`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.JobNotFoundError: No job has that id.
            errors.ExecutionNotCancellableError: The execution is running or final.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.cancel",
            "POST",
            "/jobs/{job_id}/cancel",
            path={"job_id": job_id},
            query={"if_running": if_running},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Job = await self._sender.request(call)
        return answer

    def list_executions(
        self,
        job_id: str,
        /,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
        | str
        | None = None,
        endpoint: str | None = None,
        queue: str | None = None,
        limit_key: str | None = None,
        worker_id: str | None = None,
        error_type: str | None = None,
        uncertain: bool | None = None,
        late_over: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        scheduled_after: str | datetime | None = None,
        scheduled_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Execution]:
        """List the executions of a job, newest first.

        Args:
            job_id: Id of the job.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            status: One, or several separated by commas.
            endpoint: Only items with this endpoint; None for all.
            queue: Only items with this queue, such as `bulk`; None for all.
            limit_key: Key of `limits.per_key`.
            worker_id: The worker process of the current or latest attempt; with `status=RUNNING`, the executions
                that the process holds.
            error_type: Of the latest attempt that has ended; for `archive` that of the dead letter.
            uncertain: `true`: an attempt may have been delivered although it failed; `false`: none.
            late_over: Began later than this after the due time of its latest attempt, or has waited for longer
                since.
            created_after: Only items created at this time or later; None for no bound.
            created_before: Only items created before this time; None for no bound.
            scheduled_after: Only items with this scheduled after; None for all.
            scheduled_before: Only items with this scheduled before; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Execution`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.list_executions",
            "GET",
            "/jobs/{job_id}/executions",
            path={"job_id": job_id},
            query={
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "endpoint": endpoint,
                "queue": queue,
                "limit_key": limit_key,
                "worker_id": worker_id,
                "error_type": error_type,
                "uncertain": uncertain,
                "late_over": late_over,
                "created_after": created_after,
                "created_before": created_before,
                "scheduled_after": scheduled_after,
                "scheduled_before": scheduled_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create_batch(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **fields: Unpack[models.Batch]
    ) -> models.BatchResult:
        """Create up to 1,000 jobs; a job that cannot be created does not affect the other jobs.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.Batch`; `jobs` is required.

        Returns:
            The answer as `models.BatchResult`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.create_batch",
            "POST",
            "/jobs/batch",
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BatchResult = await self._sender.request(call)
        return answer

    async def pause(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Job:
        """Pause a job: its ticks stop and its waiting executions are on hold; running attempts continue.

        Args:
            job_id: Id of the job.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Job`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.JobNotFoundError: No job has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.pause",
            "POST",
            "/jobs/{job_id}/pause",
            path={"job_id": job_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Job = await self._sender.request(call)
        return answer

    async def resume(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Job:
        """Resume a paused job with its next tick; executions on hold are released, except ticks of the pause.

        Args:
            job_id: Id of the job.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Job`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.JobNotFoundError: No job has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.resume",
            "POST",
            "/jobs/{job_id}/resume",
            path={"job_id": job_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Job = await self._sender.request(call)
        return answer

    async def run(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Execution:
        """Run a job now, even if it is paused: 201 with an extra execution of a CRON or INTERVAL job.

        A one-shot job's execution becomes due now: 200, or 409 if it is already running.

        Args:
            job_id: Id of the job.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Execution`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.JobNotFoundError: No job has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.run",
            "POST",
            "/jobs/{job_id}/run",
            path={"job_id": job_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Execution = await self._sender.request(call)
        return answer

    async def status(self, job_id: str, /, *, timeout: float | None = None) -> models.Status:
        """Get the status of a job: HEALTHY if 95 % of the last 24 hours' executions succeeded, DEGRADED from 50 %.

        Below 50 % it is FAILING, and without an execution that ended within 24 hours IDLE.

        Args:
            job_id: Id of the job.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Status`.

        Raises:
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("jobs.status", "GET", "/jobs/{job_id}/status", path={"job_id": job_id}, timeout=timeout)
        answer: models.Status = await self._sender.request(call)
        return answer

    def list_versions(
        self, job_id: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Job]:
        """List the versions of a job, newest first, by the id of any version.

        Args:
            job_id: Id of the job.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Job`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.list_versions",
            "GET",
            "/jobs/{job_id}/versions",
            path={"job_id": job_id},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def list_next_runs(
        self, job_id: str, /, *, count: int | None = None, timeout: float | None = None
    ) -> models.NextRuns:
        """List the next runs of a job, as far as they are known; none if it is paused or retired.

        Args:
            job_id: Id of the job.
            count: Number of items, 1 to 100; None for `10`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.NextRuns`.

        Raises:
            errors.JobNotFoundError: No job has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "jobs.list_next_runs",
            "GET",
            "/jobs/{job_id}/next-runs",
            path={"job_id": job_id},
            query={"count": count},
            timeout=timeout,
        )
        answer: models.NextRuns = await self._sender.request(call)
        return answer


class AsyncMetrics(AsyncGroup):
    """Operations on `metrics`; `te` in the example is a client.

    Example:
        answer = await te.metrics.metrics()
    """

    async def metrics(self, *, timeout: float | None = None) -> str:
        """Get the metrics of the API processes since the start of the server, in Prometheus's text format.

        Workers and schedulers serve their metrics at addresses of their own.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The text of the answer.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("metrics.metrics", "GET", "/metrics", is_text=True, timeout=timeout)
        answer: str = await self._sender.request(call)
        return answer


class AsyncNotificationPreviews(AsyncGroup):
    """Operations on `notification_previews`; `te` in the example is a client.

    Example:
        answer = await te.notification_previews.preview_new(
            name="billing-fails",
            events=["execution.failed", "job.recovered"],
            channels=["send-welcome-email"],
            endpoint="billing-*",
            label="team=billing",
            queue="billing-*",
            all=False,
            min_severity="warning",
            failing_after=1,
            late_seconds=300,
            group_seconds=60,
            repeat_after_seconds=3600,
            max_per_hour=20,
            quiet_hours={"from": "22:00", "to": "07:00", "days": ["mon", "tue"], "timezone": "Europe/Berlin"},
        )
    """

    async def preview_new(
        self, *, timeout: float | None = None, **fields: Unpack[models.NotificationQuestion]
    ) -> models.NotificationPreview:
        """Show the messages that a notification rule would have sent within the last day; nothing is stored or sent.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NotificationQuestion`; `channels` and `events` are required.

        Returns:
            The answer as `models.NotificationPreview`.

        Raises:
            errors.InvalidNotificationRuleError: The notification rule matches everything, or nothing, or names an
                invalid channel.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_previews.preview_new",
            "POST",
            "/notification-rules/preview",
            body=fields,
            only_reads=True,
            timeout=timeout,
        )
        answer: models.NotificationPreview = await self._sender.request(call)
        return answer

    async def preview_stored(self, name: str, /, *, timeout: float | None = None) -> models.NotificationPreview:
        """Show the messages that a stored notification rule would have sent within the last day, had it existed.

        Args:
            name: Name of the notification rule.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.NotificationPreview`.

        Raises:
            errors.NotificationRuleNotFoundError: No notification rule has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_previews.preview_stored",
            "GET",
            "/notification-rules/{name}/preview",
            path={"name": name},
            timeout=timeout,
        )
        answer: models.NotificationPreview = await self._sender.request(call)
        return answer


class AsyncNotificationRules(AsyncGroup):
    """Operations on `notification_rules`; `te` in the example is a client.

    Example:
        answer = await te.notification_rules.create(
            name="billing-fails",
            events=["execution.failed", "job.recovered"],
            channels=["send-welcome-email"],
            endpoint="billing-*",
            label="team=billing",
            queue="billing-*",
            all=False,
            min_severity="warning",
            failing_after=1,
            late_seconds=300,
            group_seconds=60,
            repeat_after_seconds=3600,
            max_per_hour=20,
            quiet_hours={"from": "22:00", "to": "07:00", "days": ["mon", "tue"], "timezone": "Europe/Berlin"},
        )
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.NotificationRule]:
        """List notification rules, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.NotificationRule`. Each page is requested when the iteration reaches it,
            so the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.list",
            "GET",
            "/notification-rules",
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create(
        self,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.NewNotificationRule],
    ) -> models.NotificationRule:
        """Create a notification rule.

        A rule that matches everything needs `"all": true`. All given conditions must match.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewNotificationRule`; `channels`, `events` and `name` are required.

        Returns:
            The answer as `models.NotificationRule`; `etag(answer)` is its version for `if_match`;
            `replayed(answer)` is True if an earlier request with the same key produced it.

        Raises:
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            errors.InvalidNotificationRuleError: The notification rule matches everything, or nothing, or names an
                invalid channel.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.create",
            "POST",
            "/notification-rules",
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.request(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.NotificationRule:
        """Get a notification rule.

        Args:
            name: Name of the notification rule.
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.NotificationRule`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.NotificationRuleNotFoundError: No notification rule has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.get",
            "GET",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.request(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.ChangedNotificationRule],
    ) -> models.NotificationRule:
        """Replace a notification rule; unsent events follow the new rule.

        Args:
            name: Name of the notification rule.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedNotificationRule`; `channels` and `events` are required.

        Returns:
            The answer as `models.NotificationRule`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.NotificationRuleNotFoundError: No notification rule has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            errors.InvalidNotificationRuleError: The notification rule matches everything, or nothing, or names an
                invalid channel.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.replace",
            "PUT",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.request(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a notification rule with its unsent events.

        Args:
            name: Name of the notification rule.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Raises:
            errors.NotificationRuleNotFoundError: No notification rule has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.delete",
            "DELETE",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.request(call)

    def list_messages(
        self, name: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.SentMessage]:
        """List the messages of a notification rule, newest first, beginning with the message that waits.

        The executions of a message's job show its delivery.

        Args:
            name: Name of the notification rule.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.SentMessage`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            errors.NotificationRuleNotFoundError: No notification rule has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notification_rules.list_messages",
            "GET",
            "/notification-rules/{name}/messages",
            path={"name": name},
            query={"limit": limit, "cursor": cursor},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncNotifications(AsyncGroup):
    """Operations on `notifications`; `te` in the example is a client.

    Example:
        answer = await te.notifications.schema()
    """

    async def schema(self, *, timeout: float | None = None) -> models.MessageSchema:
        """Get the JSON Schema of notification messages, for payload specs of channels.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.MessageSchema`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("notifications.schema", "GET", "/notifications/schema", timeout=timeout)
        answer: models.MessageSchema = await self._sender.request(call)
        return answer

    async def test(
        self,
        name: str,
        /,
        *,
        idempotency_key: str | None = None,
        prefer: str | None = None,
        timeout: float | None = None,
    ) -> models.CreatedJob:
        """Send a test message through an endpoint, as an ordinary job.

        The response is that of `POST /jobs`; with `Prefer: wait=10` it comes when the message was sent or
        rejected. If the payload spec of the endpoint rejects messages, the response is 422.

        Args:
            name: Name of the endpoint.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            prefer: `wait=10`: answer when the job's execution has ended, with its `result`, or with 202 after 10
                seconds (60 at most); `respond-async`: answer 202 at once; None for an immediate answer.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.CreatedJob`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.InputValidationFailedError: The job's input does not match the endpoint's payload spec.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "notifications.test",
            "POST",
            "/endpoints/{name}/test",
            path={"name": name},
            headers={"Prefer": prefer},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.CreatedJob = await self._sender.request(call)
        return answer


class AsyncOperations(AsyncGroup):
    """Operations on `operations`; `te` in the example is a client.

    Example:
        answer = await te.operations.operations()
    """

    async def operations(self, *, timeout: float | None = None) -> models.Operations:
        """List conditions that stop deliveries: queues without workers, open breakers, pauses.

        The status is always 200. A key is needed, unlike for `/health/live` and `/health/ready`.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Operations`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("operations.operations", "GET", "/health/operations", timeout=timeout)
        answer: models.Operations = await self._sender.request(call)
        return answer


class AsyncPayloadSpecChecks(AsyncGroup):
    """Operations on `payload_spec_checks`; `te` in the example is a client.

    Example:
        answer = await te.payload_spec_checks.check(
            name,
            schema={
                "type": "object",
                "properties": {
                    "user_id": {"type": "string", "description": "Target user ID"},
                    "order_id": {"type": "string", "description": "Associated order ID"},
                },
                "required": ["user_id"],
            },
        )
    """

    async def check(
        self, name: str, /, *, timeout: float | None = None, **fields: Unpack[models.SpecCheckQuestion]
    ) -> models.SpecCheck:
        """Check a schema against the newest 100 inputs of the endpoints that use a payload spec; changes nothing.

        Takes at most some seconds. Waiting jobs keep their inputs: only new jobs are checked by a new schema.

        Args:
            name: Name of the payload spec.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.SpecCheckQuestion`; `schema` is required.

        Returns:
            The answer as `models.SpecCheck`.

        Raises:
            errors.PayloadSpecNotFoundError: No payload spec has that name.
            errors.InvalidSchemaError: The payload spec's schema is not a JSON Schema that can be used.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_spec_checks.check",
            "POST",
            "/payload-specs/{name}/check",
            path={"name": name},
            body=fields,
            only_reads=True,
            timeout=timeout,
        )
        answer: models.SpecCheck = await self._sender.request(call)
        return answer


class AsyncPayloadSpecs(AsyncGroup):
    """Operations on `payload_specs`; `te` in the example is a client.

    Example:
        answer = await te.payload_specs.create(
            name="send-welcome-email-input",
            schema={
                "type": "object",
                "properties": {
                    "user_id": {"type": "string", "description": "Target user ID"},
                    "order_id": {"type": "string", "description": "Associated order ID"},
                },
                "required": ["user_id"],
            },
        )
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.PayloadSpec]:
        """List payload specs, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.PayloadSpec`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_specs.list", "GET", "/payload-specs", query={"limit": limit, "cursor": cursor}, timeout=timeout
        )
        return AsyncPages(self._sender, call)

    async def create(
        self,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.NewPayloadSpec],
    ) -> models.PayloadSpec:
        """Create a payload spec.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewPayloadSpec`; `name` and `schema` are required.

        Returns:
            The answer as `models.PayloadSpec`; `etag(answer)` is its version for `if_match`; `replayed(answer)`
            is True if an earlier request with the same key produced it.

        Raises:
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            errors.InvalidSchemaError: The payload spec's schema is not a JSON Schema that can be used.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_specs.create",
            "POST",
            "/payload-specs",
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.request(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.PayloadSpec:
        """Get a payload spec.

        Args:
            name: Name of the payload spec.
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.PayloadSpec`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.PayloadSpecNotFoundError: No payload spec has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_specs.get",
            "GET",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.request(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.ChangedPayloadSpec],
    ) -> models.PayloadSpec:
        """Replace the schema of a payload spec, for jobs created from now on.

        Args:
            name: Name of the payload spec.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedPayloadSpec`; `schema` is required.

        Returns:
            The answer as `models.PayloadSpec`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.PayloadSpecNotFoundError: No payload spec has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            errors.InvalidSchemaError: The payload spec's schema is not a JSON Schema that can be used.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_specs.replace",
            "PUT",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.request(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a payload spec; refused while an endpoint or an unfinished job uses it.

        Args:
            name: Name of the payload spec.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Raises:
            errors.PayloadSpecNotFoundError: No payload spec has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "payload_specs.delete",
            "DELETE",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.request(call)


class AsyncProcesses(AsyncGroup):
    """Operations on `processes`; `te` in the example is a client.

    Example:
        first = await te.processes.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "LOST", "DEAD"] | None = None,
        kind: Literal["worker", "scheduler", "web"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Process]:
        """List processes, newest first; an ended process is shown for ten minutes.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            kind: Only items with this kind; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Process`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "processes.list",
            "GET",
            "/processes",
            query={"limit": limit, "cursor": cursor, "state": state, "kind": kind},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncQueues(AsyncGroup):
    """Operations on `queues`; `te` in the example is a client.

    Example:
        first = await te.queues.list().first()
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Queue]:
        """List queues: with workers, waiting executions or a pause, and the queues of endpoints and routes.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Queue`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("queues.list", "GET", "/queues", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def pause(
        self, queue: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Queue:
        """Pause a queue: nothing is claimed from it until it is resumed. Running deliveries continue.

        New jobs are accepted, and waiting executions keep their order. Pausing a paused queue changes nothing.

        Args:
            queue: Name of the queue.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Queue`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.QueueNotFoundError: No execution waits in a queue of that name, and no worker, endpoint or
                route names it.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "queues.pause",
            "POST",
            "/queues/{queue}/pause",
            path={"queue": queue},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Queue = await self._sender.request(call)
        return answer

    async def resume(
        self, queue: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Queue:
        """Resume a queue: workers claim from it again. Resuming a queue that is not paused changes nothing.

        Args:
            queue: Name of the queue.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Queue`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.QueueNotFoundError: No execution waits in a queue of that name, and no worker, endpoint or
                route names it.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "queues.resume",
            "POST",
            "/queues/{queue}/resume",
            path={"queue": queue},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Queue = await self._sender.request(call)
        return answer


class AsyncRedrivePreviews(AsyncGroup):
    """Operations on `redrive_previews`; `te` in the example is a client.

    Example:
        answer = await te.redrive_previews.preview(
            wanted={"endpoint": "send-welcome-email", "failed_after": "2026-03-15T10:00:00Z"}, rate=20
        )
    """

    async def preview(self, *, timeout: float | None = None, **fields: Unpack[models.NewRedrive]) -> models.Preview:
        """Count the letters of a redrive, and show the first of them; changes nothing.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewRedrive`; `wanted` is required.

        Returns:
            The answer as `models.Preview`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrive_previews.preview", "POST", "/redrives/preview", body=fields, only_reads=True, timeout=timeout
        )
        answer: models.Preview = await self._sender.request(call)
        return answer


class AsyncRedrives(AsyncGroup):
    """Operations on `redrives`; `te` in the example is a client.

    Example:
        answer = await te.redrives.begin(
            wanted={"endpoint": "send-welcome-email", "failed_after": "2026-03-15T10:00:00Z"}, rate=20
        )
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.RedriveOfSeveral]:
        """List redrives, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.RedriveOfSeveral`. Each page is requested when the iteration reaches it,
            so the iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("redrives.list", "GET", "/redrives", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def begin(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewRedrive]
    ) -> models.RedriveOfSeveral:
        """Start a redrive of all letters of a filter that are open now; a scheduler starts it within seconds.

        Each letter is redriven as by `POST /dead-letters/{id}/redrive`, exactly once, oldest first, also when
        processes die. A filter without matches redrives nothing; an empty filter needs `all`.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewRedrive`; `wanted` is required.

        Returns:
            The answer as `models.RedriveOfSeveral`; `replayed(answer)` is True if an earlier request with the
            same key produced it.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrives.begin", "POST", "/redrives", body=fields, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.RedriveOfSeveral = await self._sender.request(call)
        return answer

    async def get(self, redrive_id: str, /, *, timeout: float | None = None) -> models.RedriveOfSeveral:
        """Get a redrive and its progress.

        Args:
            redrive_id: Id of the redrive.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.RedriveOfSeveral`.

        Raises:
            errors.RedriveNotFoundError: No redrive has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrives.get", "GET", "/redrives/{redrive_id}", path={"redrive_id": redrive_id}, timeout=timeout
        )
        answer: models.RedriveOfSeveral = await self._sender.request(call)
        return answer

    async def pause(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """Pause a redrive.

        Args:
            redrive_id: Id of the redrive.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.RedriveOfSeveral`; `replayed(answer)` is True if an earlier request with the
            same key produced it.

        Raises:
            errors.RedriveNotFoundError: No redrive has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrives.pause",
            "POST",
            "/redrives/{redrive_id}/pause",
            path={"redrive_id": redrive_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.RedriveOfSeveral = await self._sender.request(call)
        return answer

    async def resume(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """Resume a paused redrive.

        Args:
            redrive_id: Id of the redrive.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.RedriveOfSeveral`; `replayed(answer)` is True if an earlier request with the
            same key produced it.

        Raises:
            errors.RedriveNotFoundError: No redrive has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrives.resume",
            "POST",
            "/redrives/{redrive_id}/resume",
            path={"redrive_id": redrive_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.RedriveOfSeveral = await self._sender.request(call)
        return answer

    async def stop(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """Stop a redrive for good; its changes so far stay.

        Args:
            redrive_id: Id of the redrive.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.RedriveOfSeveral`; `replayed(answer)` is True if an earlier request with the
            same key produced it.

        Raises:
            errors.RedriveNotFoundError: No redrive has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "redrives.stop",
            "POST",
            "/redrives/{redrive_id}/stop",
            path={"redrive_id": redrive_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.RedriveOfSeveral = await self._sender.request(call)
        return answer


class AsyncRouteTests(AsyncGroup):
    """Operations on `route_tests`; `te` in the example is a client.

    Example:
        answer = await te.route_tests.test(
            endpoint="billing-eu", routes=[{"pattern": "billing-*", "queue": "bulk"}]
        )
    """

    async def test(self, *, timeout: float | None = None, **fields: Unpack[models.RouteQuestion]) -> models.RouteAnswer:
        """Return the queue for an endpoint's name; with `routes` also the endpoints that they would move.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.RouteQuestion`; `endpoint` is required.

        Returns:
            The answer as `models.RouteAnswer`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("route_tests.test", "POST", "/routes/test", body=fields, only_reads=True, timeout=timeout)
        answer: models.RouteAnswer = await self._sender.request(call)
        return answer


class AsyncRoutes(AsyncGroup):
    """Operations on `routes`; `te` in the example is a client.

    Example:
        answer = await te.routes.replace(routes=[{"pattern": "billing-*", "queue": "bulk"}])
    """

    async def get(self, *, if_none_match: str | None = None, timeout: float | None = None) -> models.Routes:
        """Get the routes.

        Args:
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Routes`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("routes.get", "GET", "/routes", headers={"If-None-Match": if_none_match}, timeout=timeout)
        answer: models.Routes = await self._sender.request(call)
        return answer

    async def replace(
        self, *, if_match: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewRoutes]
    ) -> models.Routes:
        """Replace all routes, for executions created from now on. Waiting executions stay in their queue.

        Args:
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewRoutes`; `routes` is required.

        Returns:
            The answer as `models.Routes`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("routes.replace", "PUT", "/routes", headers={"If-Match": if_match}, body=fields, timeout=timeout)
        answer: models.Routes = await self._sender.request(call)
        return answer

    async def delete(self, *, if_match: str | None = None, timeout: float | None = None) -> models.Routes:
        """Restore the routes of TE_ROUTES, as set in this process.

        Args:
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Routes`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("routes.delete", "DELETE", "/routes", headers={"If-Match": if_match}, timeout=timeout)
        answer: models.Routes = await self._sender.request(call)
        return answer


class AsyncSchedulers(AsyncGroup):
    """Operations on `schedulers`; `te` in the example is a client.

    Example:
        first = await te.schedulers.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "LOST", "DEAD"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Scheduler]:
        """List scheduler processes, newest first; an ended process is shown for ten minutes.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Scheduler`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "schedulers.list",
            "GET",
            "/schedulers",
            query={"limit": limit, "cursor": cursor, "state": state},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncSchedules(AsyncGroup):
    """Operations on `schedules`; `te` in the example is a client.

    Example:
        answer = await te.schedules.simulate(
            jobs=["job_c72f90ab13de"],
            endpoint=None,
            name=None,
            labels=None,
            cron=None,
            timezone=None,
            every=None,
            start="2026-03-15T10:00:00Z",
            length="1d",
            takes="30s",
            outage={"start": "2026-03-15T12:00:00Z", "end": "2026-03-15T14:00:00Z"},
            catch_up="latest",
            max_catch_up=None,
            overlap="skip",
        )
    """

    async def day(
        self,
        *,
        date: str | None = None,
        zone: str | None = None,
        endpoint: str | None = None,
        name: str | None = None,
        labels: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> models.ScheduleDay:
        """Show the starts of all active schedules on one day, minute by minute.

        Computed from the timetables as they are now: starts before the creation of a job's present version are
        left out. At most 5,000 schedules are counted.

        Args:
            date: Today in the zone when absent.
            zone: An IANA time zone; None for `UTC`.
            endpoint: Only items with this endpoint; None for all.
            name: Only items with this name, such as `Daily report`; None for all.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            limit: Of `schedules`; the sums count all, 1 to 1,000; None for `100`.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.ScheduleDay`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "schedules.day",
            "GET",
            "/schedules/day",
            query={"date": date, "zone": zone, "endpoint": endpoint, "name": name, "labels": labels, "limit": limit},
            timeout=timeout,
        )
        answer: models.ScheduleDay = await self._sender.request(call)
        return answer

    async def simulate(
        self, *, timeout: float | None = None, **fields: Unpack[models.SimulationQuestion]
    ) -> models.Simulation:
        """Simulate the starts of repeating jobs over a period, and the effect of an outage; changes nothing.

        At most 500 schedules, for at most two seconds; the answer names the schedules that are left out.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.SimulationQuestion`; all are optional.

        Returns:
            The answer as `models.Simulation`.

        Raises:
            errors.InvalidCronError: The cron expression is malformed, or never fires.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "schedules.simulate", "POST", "/schedules/simulate", body=fields, only_reads=True, timeout=timeout
        )
        answer: models.Simulation = await self._sender.request(call)
        return answer


class AsyncSearch(AsyncGroup):
    """Operations on `search`; `te` in the example is a client.

    Example:
        answer = await te.search.find()
    """

    async def find(self, *, q: str, timeout: float | None = None) -> models.Hits:
        """Search all tables by their indexes, at most 10 rows of a kind and field.

        Parts of names are compared for the first 2,000 names of a table, and for the 2,000 newest schedules and
        workflows.

        Args:
            q: An id, an idempotency key or a name; a part of the name of an endpoint, schedule, workflow, payload
                spec, config, secret or rule; a label such as `team=billing`; a part of a URL, target or host.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Hits`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("search.find", "GET", "/search", query={"q": q}, timeout=timeout)
        answer: models.Hits = await self._sender.request(call)
        return answer


class AsyncSecrets(AsyncGroup):
    """Operations on `secrets`; `te` in the example is a client.

    Example:
        answer = await te.secrets.create(name="email_api_key", value="sk-live-abc123")
    """

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Secret]:
        """List secrets, newest first.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Secret`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("secrets.list", "GET", "/secrets", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **fields: Unpack[models.NewSecret]
    ) -> models.Secret:
        """Create a secret.

        Args:
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewSecret`; `name` and `value` are required.

        Returns:
            The answer as `models.Secret`; `etag(answer)` is its version for `if_match`; `replayed(answer)` is
            True if an earlier request with the same key produced it.

        Raises:
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "secrets.create", "POST", "/secrets", body=fields, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Secret = await self._sender.request(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Secret:
        """Get a secret.

        Args:
            name: Name of the secret.
            if_none_match: Answer 304 without a body if the resource has one of these tags; None for an answer in
                any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Secret`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.SecretNotFoundError: No secret has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            NotModifiedError: The state still matches `if_none_match`.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "secrets.get",
            "GET",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Secret = await self._sender.request(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.ChangedSecret],
    ) -> models.Secret:
        """Rotate a secret; workers use the new value from their next claim on.

        Args:
            name: Name of the secret.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.ChangedSecret`; `value` is required.

        Returns:
            The answer as `models.Secret`; `etag(answer)` is its version for `if_match`.

        Raises:
            errors.SecretNotFoundError: No secret has that name.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "secrets.replace",
            "PUT",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=fields,
            timeout=timeout,
        )
        answer: models.Secret = await self._sender.request(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a secret; refused while an endpoint or an unfinished job uses it.

        Args:
            name: Name of the secret.
            if_match: Make the change only if the resource has one of these tags; 412 otherwise; None for a change
                in any state.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Raises:
            errors.SecretNotFoundError: No secret has that name.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.PreconditionFailedError: The resource is not in the state that If-Match or If-None-Match asks
                for; nothing was changed.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "secrets.delete",
            "DELETE",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.request(call)


class AsyncStats(AsyncGroup):
    """Operations on `stats`; `te` in the example is a client.

    Example:
        answer = await te.stats.get()
    """

    async def get(
        self, *, seconds: int | None = None, endpoint: str | None = None, timeout: float | None = None
    ) -> models.Report:
        """Report number, lateness and duration of the executions that ended lately, and running executions.

        It reads a bounded number of the newest executions, so a long history does not slow it down.

        Args:
            seconds: Period, 1 to 3,600; None for `60`.
            endpoint: Only this endpoint; any endpoint may be given.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Report`.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of("stats.get", "GET", "/stats", query={"seconds": seconds, "endpoint": endpoint}, timeout=timeout)
        answer: models.Report = await self._sender.request(call)
        return answer


class AsyncUses(AsyncGroup):
    """Operations on `uses`; `te` in the example is a client.

    Example:
        answer = await te.uses.of_endpoint(name)
    """

    async def of_endpoint(self, name: str, /, *, timeout: float | None = None) -> models.EndpointUses:
        """Count the uses of an endpoint.

        Args:
            name: Name of the endpoint.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.EndpointUses`.

        Raises:
            errors.EndpointNotFoundError: No live endpoint has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("uses.of_endpoint", "GET", "/endpoints/{name}/uses", path={"name": name}, timeout=timeout)
        answer: models.EndpointUses = await self._sender.request(call)
        return answer

    async def of_payload_spec(self, name: str, /, *, timeout: float | None = None) -> models.Uses:
        """Count the uses of a payload spec: its endpoints, and their unfinished work.

        Args:
            name: Name of the payload spec.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Uses`.

        Raises:
            errors.PayloadSpecNotFoundError: No payload spec has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "uses.of_payload_spec", "GET", "/payload-specs/{name}/uses", path={"name": name}, timeout=timeout
        )
        answer: models.Uses = await self._sender.request(call)
        return answer

    async def of_config(self, name: str, /, *, timeout: float | None = None) -> models.Uses:
        """Count the uses of a config: its endpoints, and their unfinished work.

        Args:
            name: Name of the config.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Uses`.

        Raises:
            errors.ConfigNotFoundError: No config has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("uses.of_config", "GET", "/configs/{name}/uses", path={"name": name}, timeout=timeout)
        answer: models.Uses = await self._sender.request(call)
        return answer

    async def of_secret(self, name: str, /, *, timeout: float | None = None) -> models.Uses:
        """Count the uses of a secret: its endpoints, and their unfinished work.

        Args:
            name: Name of the secret.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Uses`.

        Raises:
            errors.SecretNotFoundError: No secret has that name.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("uses.of_secret", "GET", "/secrets/{name}/uses", path={"name": name}, timeout=timeout)
        answer: models.Uses = await self._sender.request(call)
        return answer


class AsyncWorkers(AsyncGroup):
    """Operations on `workers`; `te` in the example is a client.

    Example:
        first = await te.workers.list().first()
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Worker]:
        """List worker processes, newest first; an ended worker is shown for at least a day.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Worker`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workers.list", "GET", "/workers", query={"limit": limit, "cursor": cursor, "state": state}, timeout=timeout
        )
        return AsyncPages(self._sender, call)

    async def get(self, worker_id: str, /, *, timeout: float | None = None) -> models.WorkerDetail:
        """Get a worker process, its latest commands, and the executions that were taken back from it.

        Args:
            worker_id: Id of the worker.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkerDetail`.

        Raises:
            errors.WorkerNotFoundError: No worker process has that id, or it ended more than a day ago.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of("workers.get", "GET", "/workers/{worker_id}", path={"worker_id": worker_id}, timeout=timeout)
        answer: models.WorkerDetail = await self._sender.request(call)
        return answer

    async def drain(
        self, worker_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Command:
        """Drain a worker process: it stops claiming, finishes its running deliveries, and ends.

        It reads the command with its next heartbeat, within five seconds. A second request while it drains
        changes nothing.

        Args:
            worker_id: Id of the worker.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Command`; `replayed(answer)` is True if an earlier request with the same key
            produced it.

        Raises:
            errors.WorkerNotFoundError: No worker process has that id, or it ended more than a day ago.
            errors.WorkerNotAliveError: The worker process has ended or is lost, so it takes no commands.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workers.drain",
            "POST",
            "/workers/{worker_id}/drain",
            path={"worker_id": worker_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.Command = await self._sender.request(call)
        return answer


class AsyncWorkflows(AsyncGroup):
    """Operations on `workflows`; `te` in the example is a client.

    Example:
        answer = await te.workflows.create(
            name="welcome",
            idempotency_key="welcome-1234",
            input={"user_id": "u_abc", "order_id": "order-1234"},
            nodes=[
                {
                    "name": "mail",
                    "endpoint": "send-welcome-email",
                    "input": {"user_id": "{{workflow.input.user_id}}"},
                },
                {
                    "name": "notify",
                    "endpoint": "push-notification",
                    "after": ["mail"],
                    "for_each": ["phone", "tablet"],
                    "input": {"device": "{{item}}"},
                    "tolerate": {"count": 1},
                },
            ],
        )
    """

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal[
            "RUNNING",
            "PAUSED",
            "STOPPING",
            "SUCCEEDED",
            "FAILED",
            "CANCELLED",
            "COMPENSATING",
            "COMPENSATED",
            "COMPENSATION_FAILED",
        ]
        | None = None,
        name: str | None = None,
        labels: str | None = None,
        parent_id: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Workflow]:
        """List workflows, newest first.

        A page may have fewer workflows than `limit`, even none, if few of very many match: continue while there
        is a `cursor`.

        Args:
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            status: Only items with this status; None for all.
            name: Only items with this name, such as `welcome`; None for all.
            labels: `key=value`, or several separated by commas: jobs with all of these labels.
            parent_id: Workflows that are nodes of this workflow.
            created_after: Only items created at this time or later; None for no bound.
            created_before: Only items created before this time; None for no bound.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.Workflow`. Each page is requested when the iteration reaches it, so the
            iteration raises the errors.

        Raises:
            TaskExecutorError: Errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.list",
            "GET",
            "/workflows",
            query={
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "name": name,
                "labels": labels,
                "parent_id": parent_id,
                "created_after": created_after,
                "created_before": created_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create(
        self, *, timeout: float | None = None, **fields: Unpack[models.NewWorkflow]
    ) -> models.WorkflowView:
        """Create a workflow. A second request with the idempotency key gets 200 with the first workflow, whatever
        its body.

        The whole graph is checked: the answer to an invalid graph names all faults. The nodes without `after`
        start at once. Up to 10,000 nodes, 100,000 edges and 16 MiB.

        Args:
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.NewWorkflow`; `name` and `nodes` are required.

        Returns:
            The answer as `models.WorkflowView`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.InvalidWorkflowError: A name, an endpoint, a template or a size in the workflow is not valid.
            errors.WorkflowCycleError: Nodes of the workflow wait for each other.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.create",
            "POST",
            "/workflows",
            body=fields,
            key=fields.get("idempotency_key"),
            takes_key=True,
            key_in_body=True,
            timeout=timeout,
        )
        answer: models.WorkflowView = await self._sender.request(call)
        return answer

    async def get(self, workflow_id: str, /, *, timeout: float | None = None) -> models.WorkflowView:
        """Get a workflow with its input, its progress, and the nodes that it waits for.

        Args:
            workflow_id: Id of the workflow.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowView`.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.get", "GET", "/workflows/{workflow_id}", path={"workflow_id": workflow_id}, timeout=timeout
        )
        answer: models.WorkflowView = await self._sender.request(call)
        return answer

    def list_nodes(
        self,
        workflow_id: str,
        /,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
        | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.WorkflowNode]:
        """List the nodes of a workflow, each after its parents.

        Args:
            workflow_id: Id of the workflow.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.WorkflowNode`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.list_nodes",
            "GET",
            "/workflows/{workflow_id}/nodes",
            path={"workflow_id": workflow_id},
            query={"limit": limit, "cursor": cursor, "state": state},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get_node(
        self, workflow_id: str, node: str, /, *, timeout: float | None = None
    ) -> models.WorkflowNodeView:
        """Get a node with its definition, and the nodes before and behind it.

        Args:
            workflow_id: Id of the workflow.
            node: Name of the node.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowNodeView`.

        Raises:
            errors.WorkflowNodeNotFoundError: The workflow has no node of that name.
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.get_node",
            "GET",
            "/workflows/{workflow_id}/nodes/{node}",
            path={"workflow_id": workflow_id, "node": node},
            timeout=timeout,
        )
        answer: models.WorkflowNodeView = await self._sender.request(call)
        return answer

    def list_items(
        self,
        workflow_id: str,
        node: str,
        /,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
        | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.WorkflowItem]:
        """List the items of a node that have been started, in their order; their executions have the outputs.

        Args:
            workflow_id: Id of the workflow.
            node: Name of the node.
            limit: Items per page, 1 to 200; None for `50`.
            cursor: `cursor` of the page before; None for the first page.
            state: Only items with this state; None for all.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            Items of all pages as `models.WorkflowItem`. Each page is requested when the iteration reaches it, so
            the iteration raises the errors.

        Raises:
            errors.WorkflowNodeNotFoundError: The workflow has no node of that name.
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.list_items",
            "GET",
            "/workflows/{workflow_id}/nodes/{node}/items",
            path={"workflow_id": workflow_id, "node": node},
            query={"limit": limit, "cursor": cursor, "state": state},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def graph(self, workflow_id: str, /, *, timeout: float | None = None) -> models.WorkflowGraph:
        """Get the graph as JSON, or by the Accept header as a drawing for Mermaid or Graphviz.

        Args:
            workflow_id: Id of the workflow.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowGraph`.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.graph",
            "GET",
            "/workflows/{workflow_id}/graph",
            path={"workflow_id": workflow_id},
            timeout=timeout,
        )
        answer: models.WorkflowGraph = await self._sender.request(call)
        return answer

    async def critical_path(self, workflow_id: str, /, *, timeout: float | None = None) -> models.CriticalPath:
        """Get the chain of nodes that decided the end of a workflow, or that its longest waiting open node waited
        for.

        Args:
            workflow_id: Id of the workflow.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.CriticalPath`.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.critical_path",
            "GET",
            "/workflows/{workflow_id}/critical-path",
            path={"workflow_id": workflow_id},
            timeout=timeout,
        )
        answer: models.CriticalPath = await self._sender.request(call)
        return answer

    async def explain(self, workflow_id: str, /, *, timeout: float | None = None) -> models.WorkflowExplanation:
        """Explain the state of a workflow: its progress, the nodes that it waits for, and the nodes that failed.

        Args:
            workflow_id: Id of the workflow.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowExplanation`.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.explain",
            "GET",
            "/workflows/{workflow_id}/explain",
            path={"workflow_id": workflow_id},
            timeout=timeout,
        )
        answer: models.WorkflowExplanation = await self._sender.request(call)
        return answer

    async def history(self, workflow_id: str, /, *, timeout: float | None = None) -> models.WorkflowHistory:
        """List all changes of the status of a workflow, earliest first.

        Args:
            workflow_id: Id of the workflow.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowHistory`.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.history",
            "GET",
            "/workflows/{workflow_id}/history",
            path={"workflow_id": workflow_id},
            timeout=timeout,
        )
        answer: models.WorkflowHistory = await self._sender.request(call)
        return answer

    async def cancel(
        self,
        workflow_id: str,
        /,
        *,
        if_running: Literal["request", "abort"] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> models.WorkflowView:
        """Cancel a workflow: no further node starts, also no handler and no clean-up; 409 if it has ended.

        Running nodes run to their end. With `if_running=request`, they end after their current attempt; with
        `if_running=abort`, that attempt is aborted. The workflow is CANCELLED once nothing runs. Repeating the
        request changes nothing.

        Args:
            workflow_id: Id of the workflow.
            if_running: `request`: the current attempts of running nodes are the last; `abort`: these attempts are
                also aborted; absent: running nodes run to their end.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowView`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.cancel",
            "POST",
            "/workflows/{workflow_id}/cancel",
            path={"workflow_id": workflow_id},
            query={"if_running": if_running},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.WorkflowView = await self._sender.request(call)
        return answer

    async def pause(
        self, workflow_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.WorkflowView:
        """Pause a workflow: no node starts until it is resumed, and running nodes continue; 409 if it stops or
        ended.

        Args:
            workflow_id: Id of the workflow.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowView`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.pause",
            "POST",
            "/workflows/{workflow_id}/pause",
            path={"workflow_id": workflow_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.WorkflowView = await self._sender.request(call)
        return answer

    async def resume(
        self, workflow_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.WorkflowView:
        """Resume a paused workflow; 409 if it is not paused.

        Args:
            workflow_id: Id of the workflow.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.WorkflowView`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.resume",
            "POST",
            "/workflows/{workflow_id}/resume",
            path={"workflow_id": workflow_id},
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.WorkflowView = await self._sender.request(call)
        return answer

    async def retry(
        self,
        workflow_id: str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[models.RetryWorkflow],
    ) -> models.WorkflowRetry:
        """Run nodes of an ended or paused workflow again, and all nodes behind them; 409 while it runs.

        Each node gets a new job; other nodes keep their results. Nodes that were skipped when the workflow
        stopped wait again. A deadline starts again. With `dry_run`, the answer only names the nodes.

        Args:
            workflow_id: Id of the workflow.
            idempotency_key: Chosen by the client, for example a UUID: for 24 hours, a repetition of the request
                with the same key changes nothing and gets the first answer again; None for a random key, which is
                the same on each try.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.
            **fields: Fields of `models.RetryWorkflow`; all are optional.

        Returns:
            The answer as `models.WorkflowRetry`; `replayed(answer)` is True if an earlier request with the same
            key produced it.

        Raises:
            errors.WorkflowNotFoundError: No workflow has that id.
            errors.ConflictError: Something else depends on the resource, or its name is taken.
            errors.IdempotencyKeyReusedError: The Idempotency-Key was already used for another request.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.retry",
            "POST",
            "/workflows/{workflow_id}/retry",
            path={"workflow_id": workflow_id},
            body=fields,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.WorkflowRetry = await self._sender.request(call)
        return answer

    async def topology(
        self, workflow_id: str, /, *, of: str | None = None, timeout: float | None = None
    ) -> models.Topology:
        """Get the first and last nodes of a workflow, and all nodes before and behind the node `of`.

        Args:
            workflow_id: Id of the workflow.
            of: Name of a node.
            timeout: Seconds for all tries; None for the client's `Retries.timeout`.

        Returns:
            The answer as `models.Topology`.

        Raises:
            errors.WorkflowNodeNotFoundError: The workflow has no node of that name.
            errors.WorkflowNotFoundError: No workflow has that id.
            TaskExecutorError: Other errors of each operation; see `AsyncService`.
        """
        call = Call.of(
            "workflows.topology",
            "GET",
            "/workflows/{workflow_id}/topology",
            path={"workflow_id": workflow_id},
            query={"of": of},
            timeout=timeout,
        )
        answer: models.Topology = await self._sender.request(call)
        return answer


class AsyncService(AsyncGroup):
    """All groups of operations, and rules of each operation.

    None leaves a parameter out of the request. Times are ISO 8601 texts, or `datetime` with a time zone.
    `timeout` is in seconds and limits all tries of the call together.

    Raises:
        errors.InvalidRequestError: The request itself is malformed.
        errors.UnauthorizedError: The API key is missing, unknown, expired or revoked.
        errors.ForbiddenError: The API key lacks the scope that the operation needs.
        errors.PayloadTooLargeError: The request body is too large.
        errors.UnsupportedMediaTypeError: The body must be JSON, with Content-Type: application/json.
        errors.RateLimitedError: Too many requests or waiting requests with this API key, or too many bad keys
            from this address.
        errors.InternalError: The service has a fault; its log names the fault beside the request id.
        errors.ServiceUnavailableError: The server is busy, or the database is unreachable or not migrated;
            nothing was lost, retry later.
        errors.GatewayTimeoutError: The request took too long. Its work may have been done: check, or try again.
        ApiError: A code that this version of the client does not name.
        ConnectionFailedError: The last try received no answer; see `may_have_been_done`.
        UnexpectedAnswerError: The answer does not come from Task Executor, or is larger than 64 MiB.
        ValueError: A name or id is empty, a header is not printable ASCII, or a datetime has no time zone.
        TypeError: The body has a value that is not JSON.
        RuntimeError: The client is closed.
    """

    @property
    def actors(self) -> AsyncActors:
        """Operations on `actors`."""
        return AsyncActors(self._sender)

    @property
    def api_keys(self) -> AsyncApiKeys:
        """Operations on `api_keys`."""
        return AsyncApiKeys(self._sender)

    @property
    def attempts(self) -> AsyncAttempts:
        """Operations on `attempts`."""
        return AsyncAttempts(self._sender)

    @property
    def audit(self) -> AsyncAudit:
        """Operations on `audit`."""
        return AsyncAudit(self._sender)

    @property
    def breakers(self) -> AsyncBreakers:
        """Operations on `breakers`."""
        return AsyncBreakers(self._sender)

    @property
    def bulk_operation_previews(self) -> AsyncBulkOperationPreviews:
        """Operations on `bulk_operation_previews`."""
        return AsyncBulkOperationPreviews(self._sender)

    @property
    def bulk_operations(self) -> AsyncBulkOperations:
        """Operations on `bulk_operations`."""
        return AsyncBulkOperations(self._sender)

    @property
    def callbacks(self) -> AsyncCallbacks:
        """Operations on `callbacks`."""
        return AsyncCallbacks(self._sender)

    @property
    def configs(self) -> AsyncConfigs:
        """Operations on `configs`."""
        return AsyncConfigs(self._sender)

    @property
    def cron(self) -> AsyncCron:
        """Operations on `cron`."""
        return AsyncCron(self._sender)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """Operations on `dead_letters`."""
        return AsyncDeadLetters(self._sender)

    @property
    def doctor(self) -> AsyncDoctor:
        """Operations on `doctor`."""
        return AsyncDoctor(self._sender)

    @property
    def endpoint_versions(self) -> AsyncEndpointVersions:
        """Operations on `endpoint_versions`."""
        return AsyncEndpointVersions(self._sender)

    @property
    def endpoints(self) -> AsyncEndpoints:
        """Operations on `endpoints`."""
        return AsyncEndpoints(self._sender)

    @property
    def events(self) -> AsyncEvents:
        """Operations on `events`."""
        return AsyncEvents(self._sender)

    @property
    def executions(self) -> AsyncExecutions:
        """Operations on `executions`."""
        return AsyncExecutions(self._sender)

    @property
    def explanations(self) -> AsyncExplanations:
        """Operations on `explanations`."""
        return AsyncExplanations(self._sender)

    @property
    def figures(self) -> AsyncFigures:
        """Operations on `figures`."""
        return AsyncFigures(self._sender)

    @property
    def health(self) -> AsyncHealth:
        """Operations on `health`."""
        return AsyncHealth(self._sender)

    @property
    def history(self) -> AsyncHistory:
        """Operations on `history`."""
        return AsyncHistory(self._sender)

    @property
    def jobs(self) -> AsyncJobs:
        """Operations on `jobs`."""
        return AsyncJobs(self._sender)

    @property
    def metrics(self) -> AsyncMetrics:
        """Operations on `metrics`."""
        return AsyncMetrics(self._sender)

    @property
    def notification_previews(self) -> AsyncNotificationPreviews:
        """Operations on `notification_previews`."""
        return AsyncNotificationPreviews(self._sender)

    @property
    def notification_rules(self) -> AsyncNotificationRules:
        """Operations on `notification_rules`."""
        return AsyncNotificationRules(self._sender)

    @property
    def notifications(self) -> AsyncNotifications:
        """Operations on `notifications`."""
        return AsyncNotifications(self._sender)

    @property
    def operations(self) -> AsyncOperations:
        """Operations on `operations`."""
        return AsyncOperations(self._sender)

    @property
    def payload_spec_checks(self) -> AsyncPayloadSpecChecks:
        """Operations on `payload_spec_checks`."""
        return AsyncPayloadSpecChecks(self._sender)

    @property
    def payload_specs(self) -> AsyncPayloadSpecs:
        """Operations on `payload_specs`."""
        return AsyncPayloadSpecs(self._sender)

    @property
    def processes(self) -> AsyncProcesses:
        """Operations on `processes`."""
        return AsyncProcesses(self._sender)

    @property
    def queues(self) -> AsyncQueues:
        """Operations on `queues`."""
        return AsyncQueues(self._sender)

    @property
    def redrive_previews(self) -> AsyncRedrivePreviews:
        """Operations on `redrive_previews`."""
        return AsyncRedrivePreviews(self._sender)

    @property
    def redrives(self) -> AsyncRedrives:
        """Operations on `redrives`."""
        return AsyncRedrives(self._sender)

    @property
    def route_tests(self) -> AsyncRouteTests:
        """Operations on `route_tests`."""
        return AsyncRouteTests(self._sender)

    @property
    def routes(self) -> AsyncRoutes:
        """Operations on `routes`."""
        return AsyncRoutes(self._sender)

    @property
    def schedulers(self) -> AsyncSchedulers:
        """Operations on `schedulers`."""
        return AsyncSchedulers(self._sender)

    @property
    def schedules(self) -> AsyncSchedules:
        """Operations on `schedules`."""
        return AsyncSchedules(self._sender)

    @property
    def search(self) -> AsyncSearch:
        """Operations on `search`."""
        return AsyncSearch(self._sender)

    @property
    def secrets(self) -> AsyncSecrets:
        """Operations on `secrets`."""
        return AsyncSecrets(self._sender)

    @property
    def stats(self) -> AsyncStats:
        """Operations on `stats`."""
        return AsyncStats(self._sender)

    @property
    def uses(self) -> AsyncUses:
        """Operations on `uses`."""
        return AsyncUses(self._sender)

    @property
    def workers(self) -> AsyncWorkers:
        """Operations on `workers`."""
        return AsyncWorkers(self._sender)

    @property
    def workflows(self) -> AsyncWorkflows:
        """Operations on `workflows`."""
        return AsyncWorkflows(self._sender)
