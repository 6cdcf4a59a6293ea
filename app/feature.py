"""Form of a feature: a capability in a folder of its own, and the parts of the product that it adds to."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    # Features import the types of their parts from here.
    # ruff: noqa: PLC0414
    from click import Command as Command

    from app.catalog.check_spec import SpecCheck as SpecCheck
    from app.cli.catalog_section import CatalogSection as CatalogSection
    from app.console.http.console_page import ConsolePage as ConsolePage
    from app.kernel.db import Database as Database
    from app.kernel.function_types import Hint as Hint
    from app.kernel.function_types import WrittenEvents as WrittenEvents
    from app.queue.claiming.admission import AdmissionRule as AdmissionRule
    from app.queue.claiming.endpoint_rules import FlowRules as FlowRules
    from app.queue.ending.handler import Handler as Handler
    from app.queue.executions.handover import Starter as Starter
    from app.queue.reading.waiting_reasons import WaitingReason as WaitingReason
    from app.scheduler.chore import Chore as Chore
    from app.scheduler.chore import ChoreContext as ChoreContext
    from app.scheduler.finding import Check as Check
    from app.web.openapi.resource import Resource as Resource
    from schema.states import EndpointType as EndpointType


class Feature:
    """A capability that can be removed: its folder in `app/features`, and its line in `FEATURES`.

    A feature of another package is appended to `FEATURES` before its process starts: docs/how-to/extend.md.

    A subclass overrides the methods of the parts that it adds to. Each method imports its parts when it is called, so
    that a process loads only its own parts: a worker no Flask, a web process no chores.

    Attributes:
        name: Name of the folder in `app/features`.

    Example:
        class Forecast(Feature):
            name = "forecast"

            def commands(self) -> Sequence[Command]:
                from app.features.forecast import cli

                return [cli.command]
    """

    name: ClassVar[str]

    def resources(self) -> "Sequence[Resource]":
        """Return operations of the REST API, for web processes.

        Returns:
            Resources in the order of the OpenAPI document. A resource of the kernel to which the feature adds
            operations is returned again.
        """
        return ()

    def commands(self) -> "Sequence[Command]":
        """Return commands and groups of `flask --app app`."""
        return ()

    def pages(self) -> "Sequence[ConsolePage]":
        """Return pages of the console, for web processes.

        Returns:
            Pages, whose templates are in the folder `templates` of the feature. They name the page that they follow.
        """
        return ()

    def handlers(self) -> "Sequence[Handler]":
        """Return handlers of completion events, for workers and schedulers.

        Returns:
            Handlers; each runs in the transaction that takes the event from the outbox.
        """
        return ()

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":  # noqa: ARG002
        """Return chores, built once for each scheduler process.

        Args:
            context: Database, settings and wake-ups of the scheduler.

        Returns:
            Chores with their intervals.
        """
        return ()

    def catalog_sections(self) -> "Sequence[CatalogSection]":
        """Return sections of the YAML document of `flask catalog`, in the order of the document."""
        return ()

    def checks(self) -> "Sequence[Check]":
        """Return checks of `flask doctor`.

        Returns:
            Checks. Schedulers also run the checks that are a SafetyNet, every hour.
        """
        return ()

    def admission(self, rules: "FlowRules", capacity: int) -> "Sequence[AdmissionRule]":  # noqa: ARG002
        """Return rules for claims, built for each queue of a worker process.

        Args:
            rules: Rules of all endpoints, kept current by the worker.
            capacity: Slots of the worker process: deliveries that it runs at the same time.

        Returns:
            New rules; they belong to the consumer thread of the queue, which calls the method.
        """
        return ()

    def starters(
        self,
        database: "Database",  # noqa: ARG002
        hint: "Hint",  # noqa: ARG002
        submit: "WrittenEvents",  # noqa: ARG002
    ) -> "Mapping[EndpointType, Starter]":
        """Return starters of executions without a receiver, for workers.

        Args:
            database: Database of the process.
            hint: Wakes the consumers of a queue in which executions became due.
            submit: Gives completion events to the outbox of the process, which handles them at once.
        """
        return {}

    def spec_checks(self) -> "Mapping[EndpointType, SpecCheck]":
        """Return checks of specs beyond single fields, for the registration of endpoints."""
        return {}

    def reasons(self) -> "Sequence[WaitingReason]":
        """Return reasons why a due execution waits, for `GET /executions/{execution_id}/explain`.

        Returns:
            Reasons by precedence; the answer has the first reason that holds.
        """
        return ()


def completion_handlers(features: Sequence[Feature]) -> "list[Handler]":
    """Return the handlers of completion events: the dead letter of a failure, then the handlers of the features.

    Args:
        features: Features of the process, usually `FEATURES`.

    Returns:
        Handlers in the order in which they run.
    """
    from app.queue.ending.letters import DEAD_LETTERS  # noqa: PLC0415 - a web process needs none

    return [DEAD_LETTERS, *(handler for feature in features for handler in feature.handlers())]
