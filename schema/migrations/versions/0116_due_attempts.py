"""Due instants of attempts, and an index of deliveries whose outcome nobody knows."""

from schema import online

revision = "0116"
down_revision = "0115"

_IS_UNCERTAIN = "status = 'FAILED' AND COALESCE(error ->> 'may_have_been_delivered', 'true') = 'true'"


def upgrade() -> None:
    online.add_column("attempts", "due_at", "TIMESTAMPTZ")
    online.create_index(
        "idx_attempts_uncertain", "attempts", ["created_at", "attempt_id"], where=_IS_UNCERTAIN, leads_with_time=True
    )
