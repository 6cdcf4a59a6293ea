"""Settings of te_send: the number of inline endpoints, and the limit of their timeouts."""

from schema import online

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    online.add_column("enqueue_settings", "max_inline_endpoints", "BIGINT")
    online.add_column("enqueue_settings", "stuck_timeout_ms", "BIGINT")
