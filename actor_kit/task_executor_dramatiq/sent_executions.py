"""Sent executions: the execution of a message, found and cancelled by the API."""

from collections import OrderedDict
from typing import Any

from task_executor_dramatiq.http_sending import HttpSender
from task_executor_dramatiq.messages import endpoint_name
from task_executor_dramatiq.sending import MissingExecutionError, PostgresSender

MAX_KNOWN_EXECUTIONS = 10_000


class SentExecutions:
    """Executions of messages, with a memory of the latest ones that were read."""

    def __init__(self, reader: HttpSender | PostgresSender) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def cancel(self, message: Any, if_running: str) -> None:
        """Cancel the execution of a message.

        Raises EndedError, MissingExecutionError, or TypeError for a reader of the database.
        """
        if not isinstance(self._reader, HttpSender):
            raise TypeError("give the broker the API: api=(url, key)")
        execution_id = self.id_of(message)
        if execution_id is None:
            raise MissingExecutionError(
                f"the service has no message {message.message_id}: cancel it after the commit of the transaction that"
                " sent it; retention may also have deleted it"
            )
        query = {"if_running": if_running}
        self._reader.ask("POST", f"/executions/{execution_id}/cancel", query=query, field="execution_id")

    def id_of(self, message: Any) -> str | None:
        """Return the id of the execution of a message, read from the API; None if there is none."""
        message_id: str = message.message_id
        if message_id.startswith("exec_"):
            return message_id
        place = endpoint_name(message.actor_name), message_id  # the sender may choose the id, also for two actors
        if (known := self._known.get(place)) is None and isinstance(self._reader, HttpSender):
            query = {"endpoint": place[0], "name": message_id, "limit": 1}
            found = self._reader.ask("GET", "/jobs", query=query, field="items")["items"]
            if not found or not found[0].get("execution"):
                return None
            known = self._known[place] = found[0]["execution"]["execution_id"]
            if len(self._known) > MAX_KNOWN_EXECUTIONS:
                self._known.popitem(last=False)
        return known
