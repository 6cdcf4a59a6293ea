"""`dramatiq tests.acceptance.faults.unlocked_actors`: the worker with the lock clause taken out of its claim.

What a row lock gives is a hint: on CockroachDB it may be lost. Exactness must come from the UPDATE alone.
"""

from sqlalchemy import text

from app.queue.claiming import claim

for name in ("CLAIM_1", "CLAIM_4", "CLAIM_16"):
    statement = getattr(claim, name)
    assert "FOR UPDATE SKIP LOCKED" in statement.text
    setattr(claim, name, text(statement.text.replace("FOR UPDATE SKIP LOCKED", "")))

from actors import broker  # noqa: E402

__all__ = ["broker"]
