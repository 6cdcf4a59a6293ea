"""The operations of the service, asynchronous; one class per group.

Written by `make client` from the OpenAPI document; do not edit.
"""

from datetime import datetime
from typing import Literal, Unpack

from . import models
from .call import Call
from .groups import AsyncGroup
from .pages import AsyncPages


class AsyncAudit(AsyncGroup):
    """Operations on `audit`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        action: Literal["create", "replace", "delete", "revoke", "flow", "drain"] | None = None,
        resource_type: Literal[
            "payload_spec", "config", "secret", "endpoint", "api_key", "routes", "queue", "worker", "notification_rule"
        ]
        | None = None,
        resource: str | None = None,
        after: str | datetime | None = None,
        before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.AuditEntry]:
        """List changes, newest first.

        `cursor`: `cursor` of the page before.
        `actor`: name or id of an API key, or cli:USER.
        `after`: this time or later.
        `before`: earlier than this time.
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
    """Operations on `breakers`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["closed", "open", "half_open"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Breaker]:
        """List breakers, those that changed last first.

        `cursor`: `cursor` of the page before.
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
        """Get the breaker of a target."""
        call = Call.of("breakers.get", "GET", "/breakers/{target}", path={"target": target}, timeout=timeout)
        answer: models.Breaker = await self._sender.send(call)
        return answer

    def list_events(
        self, target: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.BreakerEvent]:
        """List the changes of a breaker, newest first; they are kept for as long as executions are.

        `cursor`: `cursor` of the page before.
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
        """Let all be sent to a target again, without a probe; what failed there until now is forgotten.

        Workers know it within a second. Closing a breaker that is closed changes nothing.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Breaker = await self._sender.send(call)
        return answer


class AsyncBulkOperationPreviews(AsyncGroup):
    """Operations on `bulk_operation_previews`."""

    async def preview(
        self, *, timeout: float | None = None, **body: Unpack[models.NewBulkOperation]
    ) -> models.BulkPreview:
        """Count what a bulk operation would see to, and show the first executions; nothing is changed."""
        call = Call.of(
            "bulk_operation_previews.preview",
            "POST",
            "/bulk-operations/preview",
            body=body,
            only_reads=True,
            timeout=timeout,
        )
        answer: models.BulkPreview = await self._sender.send(call)
        return answer


class AsyncBulkOperations(AsyncGroup):
    """Operations on `bulk_operations`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.BulkOperation]:
        """List bulk operations, newest first.

        `cursor`: `cursor` of the page before.
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
        **body: Unpack[models.NewBulkOperation],
    ) -> models.BulkOperation:
        """Cancel, retry or reschedule all executions of a filter that there are now, or archive what has
        failed.

        A scheduler does so within seconds.

        Each is cancelled or retried as `POST /executions/{execution_id}/cancel` or `/retry` does, exactly
        once, the oldest first, whatever dies meanwhile. A filter that matches nothing is an operation that
        changes nothing; one that names no more than a state needs `all`. A job that repeats goes on: only
        its executions are changed. Rescheduled are those that wait, for another attempt too; nothing is
        moved into the past. Archived are open dead letters, as by `POST /dead-letters/{letter_id}/archive`,
        with one `note` for all.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "bulk_operations.begin",
            "POST",
            "/bulk-operations",
            body=body,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.send(call)
        return answer

    async def get(self, operation_id: str, /, *, timeout: float | None = None) -> models.BulkOperation:
        """Get a bulk operation and its progress."""
        call = Call.of(
            "bulk_operations.get",
            "GET",
            "/bulk-operations/{operation_id}",
            path={"operation_id": operation_id},
            timeout=timeout,
        )
        answer: models.BulkOperation = await self._sender.send(call)
        return answer

    async def pause(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """Let a bulk operation wait where it is.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.BulkOperation = await self._sender.send(call)
        return answer

    async def resume(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """Let a paused bulk operation go on where it is.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.BulkOperation = await self._sender.send(call)
        return answer

    async def stop(
        self, operation_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.BulkOperation:
        """End a bulk operation where it is; what it came to stays changed.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.BulkOperation = await self._sender.send(call)
        return answer


class AsyncCallbacks(AsyncGroup):
    """Operations on `callbacks`."""

    async def schema(self, *, timeout: float | None = None) -> models.OutcomeSchema:
        """Get the JSON Schema of the input with which endpoints are called back; a payload spec can be made of
        it.
        """
        call = Call.of("callbacks.schema", "GET", "/callbacks/schema", timeout=timeout)
        answer: models.OutcomeSchema = await self._sender.send(call)
        return answer


class AsyncConfigs(AsyncGroup):
    """Operations on `configs`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Config]:
        """List configs, newest first.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of("configs.list", "GET", "/configs", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.NewConfig]
    ) -> models.Config:
        """Create a config.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "configs.create", "POST", "/configs", body=body, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Config = await self._sender.send(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Config:
        """Get a config.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of(
            "configs.get",
            "GET",
            "/configs/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Config = await self._sender.send(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.ChangedConfig],
    ) -> models.Config:
        """Change a config; it takes effect for executions that have not begun.

        One that has keeps the values of its first attempt in all its attempts; a manual retry takes the new
        ones.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "configs.replace",
            "PUT",
            "/configs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.Config = await self._sender.send(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a config; refused while an endpoint, or an unfinished job, needs it.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "configs.delete",
            "DELETE",
            "/configs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.send(call)


class AsyncCron(AsyncGroup):
    """Operations on `cron`."""

    async def preview(
        self, *, timeout: float | None = None, **body: Unpack[models.CronPreviewQuestion]
    ) -> models.CronPreview:
        """Preview a schedule: its rule in English and its next runs, with a note where the clock changes."""
        call = Call.of("cron.preview", "POST", "/cron/preview", body=body, only_reads=True, timeout=timeout)
        answer: models.CronPreview = await self._sender.send(call)
        return answer


class AsyncDeadLetters(AsyncGroup):
    """Operations on `dead_letters`."""

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
        timeout: float | None = None,
    ) -> AsyncPages[models.DeadLetter]:
        """List dead letters, those that failed last first.

        A page may have fewer than `limit`, even none, where what `labels` or `error_type` want are few
        among very many others: go on as long as there is a cursor.

        `cursor`: `cursor` of the page before.
        `labels`: `key=value`, or several of them with commas in between: the jobs that have all of these.
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
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, letter_id: str, /, *, timeout: float | None = None) -> models.DeadLetterView:
        """Get a dead letter with its execution and its attempts."""
        call = Call.of(
            "dead_letters.get", "GET", "/dead-letters/{letter_id}", path={"letter_id": letter_id}, timeout=timeout
        )
        answer: models.DeadLetterView = await self._sender.send(call)
        return answer

    async def redrive(
        self,
        letter_id: str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.Redrive],
    ) -> models.DeadLetter:
        """Let what has failed run once more, which resolves the letter.

        With `{}` its execution gets as many attempts more as its retry policy allows, with the idempotency
        key and the version of the endpoint that it had. With an `endpoint` (its own one, too) or an `input`
        it becomes a new IMMEDIATE job with the name, the labels and the callbacks of the old one, at the
        same endpoint also with its queue and its priority, checked as any other job. The same request again
        changes nothing more; 409 for a letter that is resolved otherwise.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "dead_letters.redrive",
            "POST",
            "/dead-letters/{letter_id}/redrive",
            path={"letter_id": letter_id},
            body=body,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.DeadLetter = await self._sender.send(call)
        return answer

    async def archive(
        self,
        letter_id: str,
        /,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.Archive],
    ) -> models.DeadLetter:
        """Resolve a letter that nothing is to follow. From then on the retention counts.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "dead_letters.archive",
            "POST",
            "/dead-letters/{letter_id}/archive",
            path={"letter_id": letter_id},
            body=body,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.DeadLetter = await self._sender.send(call)
        return answer


class AsyncEndpoints(AsyncGroup):
    """Operations on `endpoints`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Endpoint]:
        """List endpoints, newest first.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of("endpoints.list", "GET", "/endpoints", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.NewEndpoint]
    ) -> models.Endpoint:
        """Register an endpoint.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "endpoints.create", "POST", "/endpoints", body=body, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Get an endpoint.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of(
            "endpoints.get",
            "GET",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.ChangedEndpoint],
    ) -> models.Endpoint:
        """Change an endpoint for the jobs created from now on; it gets a new version.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "endpoints.replace",
            "PUT",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def patch(
        self, name: str, /, *, if_match: str | None = None, timeout: float | None = None, **body: Unpack[models.Flow]
    ) -> models.Endpoint:
        """Change the queue, priority, limits or breaker of an endpoint, in the same version.

        Limits and the breaker count within a second, also for what waits already. A queue and a priority
        are those of the executions that are created from now on. A key of limits is that of jobs created
        from now on.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "endpoints.patch",
            "PATCH",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete an endpoint; refused while it has a repeating job that is not retired, or an unfinished
        execution.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "endpoints.delete",
            "DELETE",
            "/endpoints/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.send(call)

    async def pause(
        self, name: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Let nothing of an endpoint start, from a second later at most until it is resumed; what runs goes
        on.

        Its jobs are accepted meanwhile, and its executions wait. Pausing it again changes nothing.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def resume(
        self, name: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Endpoint:
        """Let executions of an endpoint start again, those that wait included.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Endpoint = await self._sender.send(call)
        return answer

    async def limits(self, name: str, /, *, key: str | None = None, timeout: float | None = None) -> models.LimitsState:
        """Tell what runs and waits behind the limits of an endpoint, and how many may start.

        `key`: a value of `per_key.key`.
        """
        call = Call.of(
            "endpoints.limits",
            "GET",
            "/endpoints/{name}/limits",
            path={"name": name},
            query={"key": key},
            timeout=timeout,
        )
        answer: models.LimitsState = await self._sender.send(call)
        return answer


class AsyncEvents(AsyncGroup):
    """Operations on `events`."""

    async def list(
        self,
        *,
        kind: str | None = None,
        endpoint: str | None = None,
        job_id: str | None = None,
        labels: str | None = None,
        after: str | None = None,
        since: str | datetime | None = None,
        limit: int | None = None,
        last_event_id: str | None = None,
        timeout: float | None = None,
    ) -> models.EventPage:
        """List what has happened, the earliest first; with `Accept: text/event-stream`, send it as it happens.

        A page may have fewer than `limit`, even none: go on from its `next`, then or later. A stream
        (Server-Sent Events) begins now, unless `after`, `Last-Event-ID` or `since` say otherwise; events
        come about a second late. Whoever comes again with the last id misses none and gets none twice, for
        as long as they are kept: 410 afterwards. So is an id that is ahead of the database's clock, which
        was set back then: begin anew.

        `kind`: kinds, or groups of them, with commas between them.
        `labels`: `key=value`, or several of them with commas in between: the jobs that have all of these.
        `after`: the id of an event, or `next` of the page before: what follows it.
        `since`: without `after`: what has happened from then on.
        `last_event_id`: of a stream: the id of the last event that came; `after` in its place.
        """
        call = Call.of(
            "events.list",
            "GET",
            "/events",
            query={
                "kind": kind,
                "endpoint": endpoint,
                "job_id": job_id,
                "labels": labels,
                "after": after,
                "since": since,
                "limit": limit,
            },
            headers={"Last-Event-ID": last_event_id},
            timeout=timeout,
        )
        answer: models.EventPage = await self._sender.send(call)
        return answer


class AsyncExecutions(AsyncGroup):
    """Operations on `executions`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"] | None = None,
        endpoint: str | None = None,
        queue: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        job_id: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Execution]:
        """List executions, newest first.

        A page of a `queue` may have fewer than `limit`, even none, where they are few among very many
        others: go on as long as there is a cursor.

        `cursor`: `cursor` of the page before.
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
                "created_after": created_after,
                "created_before": created_before,
                "job_id": job_id,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def get(self, execution_id: str, /, *, timeout: float | None = None) -> models.Execution:
        """Get an execution."""
        call = Call.of(
            "executions.get", "GET", "/executions/{execution_id}", path={"execution_id": execution_id}, timeout=timeout
        )
        answer: models.Execution = await self._sender.send(call)
        return answer

    def list_attempts(
        self, execution_id: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Attempt]:
        """List the attempts of an execution, the latest first.

        `cursor`: `cursor` of the page before.
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
        """List the log lines of an execution, the latest first.

        `cursor`: `cursor` of the page before.
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
        """Cancel an execution that has not begun; one that is running ends after its present attempt, if asked
        for (202).

        With `if_running=abort` its worker breaks that attempt off within about a second: HTTP closes the
        connection. The error says that it `may_have_been_delivered`; what was not sent yet leaves no
        attempt. When the attempt succeeds first the execution is a SUCCESS all the same. 409 for one that
        is over.

        `if_running`: `request`: no further attempt follows (202); `abort`: and the present one is broken
        off (202); without it the answer is 409.
        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Execution = await self._sender.send(call)
        return answer

    async def retry(
        self, execution_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Execution:
        """Queue a FAILED or CANCELLED execution again, due now, with as many attempts more as its retry policy
        allows.

        That resolves its dead letter. 409 where somebody has seen to the letter otherwise: archived,
        nothing is to follow; redriven as a new job, it goes on as the execution that the message names.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Execution = await self._sender.send(call)
        return answer

    async def history(self, execution_id: str, /, *, timeout: float | None = None) -> models.History:
        """List every change of state of an execution, the earliest first.

        Of a very long life only the creation and the latest changes are told: then `truncated` is true.
        """
        call = Call.of(
            "executions.history",
            "GET",
            "/executions/{execution_id}/history",
            path={"execution_id": execution_id},
            timeout=timeout,
        )
        answer: models.History = await self._sender.send(call)
        return answer

    async def explain(self, execution_id: str, /, *, timeout: float | None = None) -> models.Explanation:
        """Say why an execution is where it is, in a word for programs and in a sentence."""
        call = Call.of(
            "executions.explain",
            "GET",
            "/executions/{execution_id}/explain",
            path={"execution_id": execution_id},
            timeout=timeout,
        )
        answer: models.Explanation = await self._sender.send(call)
        return answer

    async def result(
        self, execution_id: str, /, *, wait: str | None = None, timeout: float | None = None
    ) -> models.Result:
        """Get what an execution came to, and `wait` for it: 202 where it is not over by then.

        A wait ends with the execution, or a little later: by a quarter of the time waited, half a second at
        most. A process lets a limited number of requests wait (`TE_WEB_WAITING`) and answers 503 to others,
        or 429 where too many of them are of the same key. 410 where the endpoint keeps results for a
        shorter time than executions are kept.

        `wait`: for the end, up to `60s`; not at all when absent.
        """
        call = Call.of(
            "executions.result",
            "GET",
            "/executions/{execution_id}/result",
            path={"execution_id": execution_id},
            query={"wait": wait},
            timeout=timeout,
        )
        answer: models.Result = await self._sender.send(call)
        return answer


class AsyncHealth(AsyncGroup):
    """Operations on `health`."""

    async def live(self, *, timeout: float | None = None) -> models.Health:
        """Tell that the process answers."""
        call = Call.of("health.live", "GET", "/health/live", timeout=timeout)
        answer: models.Health = await self._sender.send(call)
        return answer

    async def ready(self, *, timeout: float | None = None) -> models.Health:
        """Tell that the database can be reached and is migrated, as of a second ago at most; 503 otherwise."""
        call = Call.of("health.ready", "GET", "/health/ready", timeout=timeout)
        answer: models.Health = await self._sender.send(call)
        return answer


class AsyncJobs(AsyncGroup):
    """Operations on `jobs`."""

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
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Job]:
        """List jobs, newest first.

        A page holds at most 4 MiB of inputs, and is handed out as it is when its jobs are few among very
        many others. So it may have fewer jobs than `limit`, even none: go on as long as there is a cursor.

        `cursor`: `cursor` of the page before.
        `labels`: `key=value`, or several of them with commas in between: the jobs that have all of these.
        `queue`: jobs that name this queue themselves.
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
                "created_after": created_after,
                "created_before": created_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create(
        self, *, prefer: str | None = None, timeout: float | None = None, **body: Unpack[models.NewJob]
    ) -> models.CreatedJob:
        """Create a job. The same idempotency key again answers 200 with the first job, whatever the body.

        With `Prefer: wait=10` the answer comes once the job's execution is over, and has its `result`;
        after so many seconds it is a 202, whose `Location` tells where the result will be. The same request
        again waits for the same job.

        `prefer`: `wait=10`: answer once the job's execution is over, with its `result`, or after so many
        seconds (60 at most) with 202; `respond-async`: answer 202 at once. Both, for those that respect
        neither.
        """
        call = Call.of(
            "jobs.create",
            "POST",
            "/jobs",
            headers={"Prefer": prefer},
            body=body,
            key=body.get("idempotency_key"),
            takes_key=True,
            key_in_body=True,
            timeout=timeout,
        )
        answer: models.CreatedJob = await self._sender.send(call)
        return answer

    async def get(self, job_id: str, /, *, timeout: float | None = None) -> models.Job:
        """Get a job."""
        call = Call.of("jobs.get", "GET", "/jobs/{job_id}", path={"job_id": job_id}, timeout=timeout)
        answer: models.Job = await self._sender.send(call)
        return answer

    async def update(
        self, job_id: str, /, *, timeout: float | None = None, **body: Unpack[models.ChangedJob]
    ) -> models.Job:
        """Replace a CRON or INTERVAL job by its next version, which has a new id; the old one is RETIRED.

        The new version takes the endpoint as it is now. Executions of the old version that have not begun
        are cancelled; those that have run to their end, retries included.
        """
        call = Call.of("jobs.update", "PUT", "/jobs/{job_id}", path={"job_id": job_id}, body=body, timeout=timeout)
        answer: models.Job = await self._sender.send(call)
        return answer

    async def patch(
        self, job_id: str, /, *, timeout: float | None = None, **body: Unpack[models.PatchedJob]
    ) -> models.Job:
        """Pause or resume a job by its `status`, or replace it as PUT does."""
        call = Call.of("jobs.patch", "PATCH", "/jobs/{job_id}", path={"job_id": job_id}, body=body, timeout=timeout)
        answer: models.Job = await self._sender.send(call)
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
        """Retire a job and cancel what has not begun. 409 when a one-shot job's execution is running or over.

        Executions of a CRON or INTERVAL job that have begun run to their end, retries included. With
        `if_running=request` (202) nothing is attempted again: what is running ends after its present
        attempt. With `if_running=abort` (202) that attempt is broken off.

        `if_running`: `request`: no further attempt follows (202); `abort`: and the present one is broken
        off (202); without it the answer is 409.
        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Job = await self._sender.send(call)
        return answer

    def list_executions(
        self,
        job_id: str,
        /,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"] | None = None,
        endpoint: str | None = None,
        queue: str | None = None,
        created_after: str | datetime | None = None,
        created_before: str | datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Execution]:
        """List the executions of a job, newest first.

        `cursor`: `cursor` of the page before.
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
                "created_after": created_after,
                "created_before": created_before,
            },
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)

    async def create_batch(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.Batch]
    ) -> models.BatchResult:
        """Create up to 1,000 jobs; one that cannot be created leaves the others alone.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "jobs.create_batch", "POST", "/jobs/batch", body=body, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.BatchResult = await self._sender.send(call)
        return answer

    async def pause(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Job:
        """Stop the ticks of a job and hold back what has not begun; what is running goes on.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Job = await self._sender.send(call)
        return answer

    async def resume(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Job:
        """Let a paused job go on: with what was held back, and with the first tick from now on.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Job = await self._sender.send(call)
        return answer

    async def run(
        self, job_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Execution:
        """Run a job now, also while it is paused: 201 with an extra execution of a CRON or INTERVAL job.

        The execution of a one-shot job is brought forward and answered with 200; 409 when it is running
        already.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Execution = await self._sender.send(call)
        return answer

    async def status(self, job_id: str, /, *, timeout: float | None = None) -> models.Status:
        """Tell how a job is doing: HEALTHY when 95 % of a day's executions succeeded, DEGRADED from 50 %,
        FAILING below.

        IDLE when none ended within 24 hours.
        """
        call = Call.of("jobs.status", "GET", "/jobs/{job_id}/status", path={"job_id": job_id}, timeout=timeout)
        answer: models.Status = await self._sender.send(call)
        return answer

    def list_versions(
        self, job_id: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Job]:
        """List the versions of a job, the newest first; any of their ids will do.

        `cursor`: `cursor` of the page before.
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
        """List when a job runs next, as far as that is known: nothing for a job that is paused or retired."""
        call = Call.of(
            "jobs.list_next_runs",
            "GET",
            "/jobs/{job_id}/next-runs",
            path={"job_id": job_id},
            query={"count": count},
            timeout=timeout,
        )
        answer: models.NextRuns = await self._sender.send(call)
        return answer


class AsyncMetrics(AsyncGroup):
    """Operations on `metrics`."""

    async def metrics(self, *, timeout: float | None = None) -> str:
        """Tell what the processes of the API have counted since they were started together, in Prometheus's
        text format.

        Workers and schedulers tell it at addresses of their own.
        """
        call = Call.of("metrics.metrics", "GET", "/metrics", is_text=True, timeout=timeout)
        answer: str = await self._sender.send(call)
        return answer


class AsyncNotificationPreviews(AsyncGroup):
    """Operations on `notification_previews`."""

    async def preview_new(
        self, *, timeout: float | None = None, **body: Unpack[models.NotificationQuestion]
    ) -> models.NotificationPreview:
        """Show what a notification rule would have told within the last day; nothing is stored or sent."""
        call = Call.of(
            "notification_previews.preview_new",
            "POST",
            "/notification-rules/preview",
            body=body,
            only_reads=True,
            timeout=timeout,
        )
        answer: models.NotificationPreview = await self._sender.send(call)
        return answer

    async def preview_stored(self, name: str, /, *, timeout: float | None = None) -> models.NotificationPreview:
        """Show what a stored notification rule would have told within the last day, whether or not it was
        there.
        """
        call = Call.of(
            "notification_previews.preview_stored",
            "GET",
            "/notification-rules/{name}/preview",
            path={"name": name},
            timeout=timeout,
        )
        answer: models.NotificationPreview = await self._sender.send(call)
        return answer


class AsyncNotificationRules(AsyncGroup):
    """Operations on `notification_rules`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.NotificationRule]:
        """List notification rules, newest first.

        `cursor`: `cursor` of the page before.
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
        **body: Unpack[models.NewNotificationRule],
    ) -> models.NotificationRule:
        """Create a notification rule.

        One that matches everything says so by `"all": true`; several conditions have to be met together.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "notification_rules.create",
            "POST",
            "/notification-rules",
            body=body,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.send(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.NotificationRule:
        """Get a notification rule.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of(
            "notification_rules.get",
            "GET",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.send(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.ChangedNotificationRule],
    ) -> models.NotificationRule:
        """Change a notification rule; what it gathers already is told as the new rule says.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "notification_rules.replace",
            "PUT",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.NotificationRule = await self._sender.send(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a notification rule, with what it has gathered and not told yet.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "notification_rules.delete",
            "DELETE",
            "/notification-rules/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.send(call)

    def list_messages(
        self, name: str, /, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.SentMessage]:
        """List the messages of a notification rule, newest first, beginning with what waits to be told.

        What became of a message after that is in the executions of its job.

        `cursor`: `cursor` of the page before.
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
    """Operations on `notifications`."""

    async def schema(self, *, timeout: float | None = None) -> models.MessageSchema:
        """Get the JSON Schema of the input with which endpoints notify people; a payload spec can be made of
        it.
        """
        call = Call.of("notifications.schema", "GET", "/notifications/schema", timeout=timeout)
        answer: models.MessageSchema = await self._sender.send(call)
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
        """Send a message through an endpoint that says that it is a test: a job like any other, with that
        message as input.

        Answered as `POST /jobs` is, with `Prefer: wait=10` once the message was sent or refused. An
        endpoint whose payload spec refuses messages is answered with 422.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        `prefer`: `wait=10`: answer once the job's execution is over, with its `result`, or after so many
        seconds (60 at most) with 202; `respond-async`: answer 202 at once. Both, for those that respect
        neither.
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
        answer: models.CreatedJob = await self._sender.send(call)
        return answer


class AsyncOperations(AsyncGroup):
    """Operations on `operations`."""

    async def operations(self, *, timeout: float | None = None) -> models.Operations:
        """Tell what works as it should, and yet delivers nothing: queues without workers, open breakers,
        pauses.

        The answer is 200 in any case, and needs a key, unlike those of `/health/live` and `/health/ready`.
        """
        call = Call.of("operations.operations", "GET", "/health/operations", timeout=timeout)
        answer: models.Operations = await self._sender.send(call)
        return answer


class AsyncPayloadSpecs(AsyncGroup):
    """Operations on `payload_specs`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.PayloadSpec]:
        """List payload specs, newest first.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of(
            "payload_specs.list", "GET", "/payload-specs", query={"limit": limit, "cursor": cursor}, timeout=timeout
        )
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.NewPayloadSpec]
    ) -> models.PayloadSpec:
        """Create a payload spec.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "payload_specs.create",
            "POST",
            "/payload-specs",
            body=body,
            key=idempotency_key,
            takes_key=True,
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.send(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.PayloadSpec:
        """Get a payload spec.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of(
            "payload_specs.get",
            "GET",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.send(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.ChangedPayloadSpec],
    ) -> models.PayloadSpec:
        """Change a payload spec; it binds the jobs created from now on.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "payload_specs.replace",
            "PUT",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.PayloadSpec = await self._sender.send(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a payload spec; refused while an endpoint, or an unfinished job, needs it.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "payload_specs.delete",
            "DELETE",
            "/payload-specs/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.send(call)


class AsyncProcesses(AsyncGroup):
    """Operations on `processes`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "LOST", "DEAD"] | None = None,
        kind: Literal["worker", "scheduler", "web"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Process]:
        """List processes, those that started last first; one that has ended is shown for ten minutes.

        `cursor`: `cursor` of the page before.
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
    """Operations on `queues`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Queue]:
        """List the queues that workers serve, that endpoints or routes name, that are paused, or that hold
        executions.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of("queues.list", "GET", "/queues", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def pause(
        self, queue: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Queue:
        """Let nothing of a queue be claimed, from now on until it is resumed; what runs goes on.

        Jobs are accepted meanwhile, and what waits keeps its place. Pausing it again changes nothing.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Queue = await self._sender.send(call)
        return answer

    async def resume(
        self, queue: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Queue:
        """Let workers claim from a queue again; of one that is not paused nothing changes.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Queue = await self._sender.send(call)
        return answer


class AsyncRedrivePreviews(AsyncGroup):
    """Operations on `redrive_previews`."""

    async def preview(self, *, timeout: float | None = None, **body: Unpack[models.NewRedrive]) -> models.Preview:
        """Count what a redrive would see to, and show the first letters; nothing is changed."""
        call = Call.of(
            "redrive_previews.preview", "POST", "/redrives/preview", body=body, only_reads=True, timeout=timeout
        )
        answer: models.Preview = await self._sender.send(call)
        return answer


class AsyncRedrives(AsyncGroup):
    """Operations on `redrives`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.RedriveOfSeveral]:
        """List redrives, newest first.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of("redrives.list", "GET", "/redrives", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def begin(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.NewRedrive]
    ) -> models.RedriveOfSeveral:
        """Let all letters of a filter run once more that are open now; a scheduler does so within seconds.

        Each is redriven as `POST /dead-letters/{id}/redrive` does, exactly once, the oldest first, whatever
        dies meanwhile. A filter that matches nothing is a redrive of nothing; an empty one needs `all`.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "redrives.begin", "POST", "/redrives", body=body, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.RedriveOfSeveral = await self._sender.send(call)
        return answer

    async def get(self, redrive_id: str, /, *, timeout: float | None = None) -> models.RedriveOfSeveral:
        """Get a redrive and its progress."""
        call = Call.of(
            "redrives.get", "GET", "/redrives/{redrive_id}", path={"redrive_id": redrive_id}, timeout=timeout
        )
        answer: models.RedriveOfSeveral = await self._sender.send(call)
        return answer

    async def pause(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """Let a redrive wait where it is.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.RedriveOfSeveral = await self._sender.send(call)
        return answer

    async def resume(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """Let a paused redrive go on where it is.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.RedriveOfSeveral = await self._sender.send(call)
        return answer

    async def stop(
        self, redrive_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.RedriveOfSeveral:
        """End a redrive where it is; what it came to stays redriven.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.RedriveOfSeveral = await self._sender.send(call)
        return answer


class AsyncRouteTests(AsyncGroup):
    """Operations on `route_tests`."""

    async def test(self, *, timeout: float | None = None, **body: Unpack[models.RouteQuestion]) -> models.RouteAnswer:
        """Say which queue an endpoint's name leads to, and with `routes` which endpoints they would move."""
        call = Call.of("route_tests.test", "POST", "/routes/test", body=body, only_reads=True, timeout=timeout)
        answer: models.RouteAnswer = await self._sender.send(call)
        return answer


class AsyncRoutes(AsyncGroup):
    """Operations on `routes`."""

    async def get(self, *, if_none_match: str | None = None, timeout: float | None = None) -> models.Routes:
        """Get the routes.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of("routes.get", "GET", "/routes", headers={"If-None-Match": if_none_match}, timeout=timeout)
        answer: models.Routes = await self._sender.send(call)
        return answer

    async def replace(
        self, *, if_match: str | None = None, timeout: float | None = None, **body: Unpack[models.NewRoutes]
    ) -> models.Routes:
        """Replace all routes, for the executions that are created from now on; what waits stays in its queue.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of("routes.replace", "PUT", "/routes", headers={"If-Match": if_match}, body=body, timeout=timeout)
        answer: models.Routes = await self._sender.send(call)
        return answer

    async def delete(self, *, if_match: str | None = None, timeout: float | None = None) -> models.Routes:
        """Go back to the routes of TE_ROUTES, as this process has them.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of("routes.delete", "DELETE", "/routes", headers={"If-Match": if_match}, timeout=timeout)
        answer: models.Routes = await self._sender.send(call)
        return answer


class AsyncSchedulers(AsyncGroup):
    """Operations on `schedulers`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "LOST", "DEAD"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Scheduler]:
        """List scheduler processes, those that started last first; one that has ended is shown for ten
        minutes.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of(
            "schedulers.list",
            "GET",
            "/schedulers",
            query={"limit": limit, "cursor": cursor, "state": state},
            timeout=timeout,
        )
        return AsyncPages(self._sender, call)


class AsyncSecrets(AsyncGroup):
    """Operations on `secrets`."""

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPages[models.Secret]:
        """List secrets, newest first.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of("secrets.list", "GET", "/secrets", query={"limit": limit, "cursor": cursor}, timeout=timeout)
        return AsyncPages(self._sender, call)

    async def create(
        self, *, idempotency_key: str | None = None, timeout: float | None = None, **body: Unpack[models.NewSecret]
    ) -> models.Secret:
        """Create a secret.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
        """
        call = Call.of(
            "secrets.create", "POST", "/secrets", body=body, key=idempotency_key, takes_key=True, timeout=timeout
        )
        answer: models.Secret = await self._sender.send(call)
        return answer

    async def get(
        self, name: str, /, *, if_none_match: str | None = None, timeout: float | None = None
    ) -> models.Secret:
        """Get a secret.

        `if_none_match`: answer 304 without a body if the resource has one of these tags.
        """
        call = Call.of(
            "secrets.get",
            "GET",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-None-Match": if_none_match},
            timeout=timeout,
        )
        answer: models.Secret = await self._sender.send(call)
        return answer

    async def replace(
        self,
        name: str,
        /,
        *,
        if_match: str | None = None,
        timeout: float | None = None,
        **body: Unpack[models.ChangedSecret],
    ) -> models.Secret:
        """Rotate a secret; the next claim of any worker sees the new value.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "secrets.replace",
            "PUT",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            body=body,
            timeout=timeout,
        )
        answer: models.Secret = await self._sender.send(call)
        return answer

    async def delete(self, name: str, /, *, if_match: str | None = None, timeout: float | None = None) -> None:
        """Delete a secret; refused while an endpoint, or an unfinished job, needs it.

        `if_match`: make the change only if the resource has one of these tags; 412 otherwise.
        """
        call = Call.of(
            "secrets.delete",
            "DELETE",
            "/secrets/{name}",
            path={"name": name},
            headers={"If-Match": if_match},
            timeout=timeout,
        )
        await self._sender.send(call)


class AsyncStats(AsyncGroup):
    """Operations on `stats`."""

    async def get(
        self, *, seconds: int | None = None, endpoint: str | None = None, timeout: float | None = None
    ) -> models.Report:
        """Tell how many executions ended of late, how late they began and how long they took, and how many
        run.

        It looks at a bounded number of those that ended last, so it is as quick on a long history.

        `seconds`: how long ago it ended at most.
        `endpoint`: of this endpoint alone.
        """
        call = Call.of("stats.get", "GET", "/stats", query={"seconds": seconds, "endpoint": endpoint}, timeout=timeout)
        answer: models.Report = await self._sender.send(call)
        return answer


class AsyncWorkers(AsyncGroup):
    """Operations on `workers`."""

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"] | None = None,
        timeout: float | None = None,
    ) -> AsyncPages[models.Worker]:
        """List worker processes, those that started last first; one that has ended is shown for a day at
        least.

        `cursor`: `cursor` of the page before.
        """
        call = Call.of(
            "workers.list", "GET", "/workers", query={"limit": limit, "cursor": cursor, "state": state}, timeout=timeout
        )
        return AsyncPages(self._sender, call)

    async def get(self, worker_id: str, /, *, timeout: float | None = None) -> models.WorkerDetail:
        """Get a worker process, and what became of the commands to it."""
        call = Call.of("workers.get", "GET", "/workers/{worker_id}", path={"worker_id": worker_id}, timeout=timeout)
        answer: models.WorkerDetail = await self._sender.send(call)
        return answer

    async def drain(
        self, worker_id: str, /, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.Command:
        """Ask a worker process to claim nothing more, finish what it has begun, and end.

        It learns of it with its next heartbeat, within five seconds. Asking again changes nothing while it
        drains.

        `idempotency_key`: chosen by the client, a UUID for instance: for 24 hours the same request with the
        same key changes nothing more and gets the first answer again.
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
        answer: models.Command = await self._sender.send(call)
        return answer


class AsyncService(AsyncGroup):
    """All groups of operations."""

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
    def health(self) -> AsyncHealth:
        """Operations on `health`."""
        return AsyncHealth(self._sender)

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
    def secrets(self) -> AsyncSecrets:
        """Operations on `secrets`."""
        return AsyncSecrets(self._sender)

    @property
    def stats(self) -> AsyncStats:
        """Operations on `stats`."""
        return AsyncStats(self._sender)

    @property
    def workers(self) -> AsyncWorkers:
        """Operations on `workers`."""
        return AsyncWorkers(self._sender)
