"""Form of a feature: a capability in a folder of its own, and the parts of the product that it adds to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import click

    from app.cli.catalog_section import CatalogSection
    from app.queue.claiming.admission import AdmissionRule
    from app.queue.claiming.endpoint_rules import FlowRules
    from app.queue.ending.handler import Handler
    from app.queue.reading.waiting_reasons import WaitingReason
    from app.scheduler.chore import Chore, ChoreContext
    from app.scheduler.finding import Check
    from app.web.openapi.resource import Resource


class Feature:
    """A capability that can be removed: its folder in `app/features`, and its line in `FEATURES`.

    A subclass overrides the methods of the parts that it adds to. Each imports what it returns when it is called, so
    that a process loads only its own parts: a worker no Flask, a web process no chores.

    Example:
        class Forecast(Feature):
            name = "forecast"

            def commands(self) -> Sequence[click.Command]:
                from app.features.forecast import cli

                return [cli.command]
    """

    name: ClassVar[str]

    def resources(self) -> "Sequence[Resource]":
        """Return operations of the REST API, in the order of the OpenAPI document.

        A resource of the kernel to which the feature adds operations is returned again.
        """
        return ()

    def commands(self) -> "Sequence[click.Command]":
        """Return commands and groups of `flask --app app`."""
        return ()

    def handlers(self) -> "Sequence[Handler]":
        """Return handlers of completion events; each runs in the transaction that takes the event from the outbox."""
        return ()

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":  # noqa: ARG002
        """Return chores of the scheduler, built once for each process."""
        return ()

    def catalog_sections(self) -> "Sequence[CatalogSection]":
        """Return sections of the YAML document of `flask catalog`."""
        return ()

    def checks(self) -> "Sequence[Check]":
        """Return checks of `flask doctor`; schedulers run those that are safety nets every hour."""
        return ()

    def admission(self, rules: "FlowRules", capacity: int) -> "Sequence[AdmissionRule]":  # noqa: ARG002
        """Return rules for claims, built for each queue of a worker process that has `capacity` slots."""
        return ()

    def reasons(self) -> "Sequence[WaitingReason]":
        """Return reasons why a due execution waits, for `explain`; it gives the first that holds."""
        return ()


def completion_handlers(features: Sequence[Feature]) -> "list[Handler]":
    """Return all that follows a completion event: the dead letter of a failure, then the handlers of features."""
    from app.queue.ending.letters import DEAD_LETTERS  # noqa: PLC0415 - a web process needs none

    return [DEAD_LETTERS, *(handler for feature in features for handler in feature.handlers())]
