"""Permission to send: the claim's answers while its attempt is under way."""

from typing import Protocol


class Permission(Protocol):
    """Permission of one attempt; each transport asks for it on the event loop."""

    def may_send(self) -> bool:
        """Return whether the first byte may leave: this process holds the claim, and it is not too late.

        `Progress.begin_sending` asks right before the first byte. Another worker may be sending by now.
        """

    def begin(self) -> None:
        """Begin after a wait for a connection; raises NotSentError if the attempt must not start any more."""

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Record that the attempt goes on beyond its soft limit."""


class Unconditional:
    """Permission of what is no attempt of an execution."""

    def may_send(self) -> bool:
        """Permit."""
        return True

    def begin(self) -> None:
        """Permit."""

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Do nothing."""


UNCONDITIONAL = Unconditional()
