"""A worker whose claim has no lock clause: `dramatiq tests.acceptance.faults.unlocked_actors`.

CockroachDB can lose a row lock, so the UPDATE alone must prevent a second claim.
"""

from sqlalchemy import text

from app.queue.claiming import claim

for name in ("CLAIM_1", "CLAIM_4", "CLAIM_16"):
    statement = getattr(claim, name)
    assert "FOR UPDATE SKIP LOCKED" in statement.text
    setattr(claim, name, text(statement.text.replace("FOR UPDATE SKIP LOCKED", "")))

from actors import broker  # noqa: E402

__all__ = ["broker"]
