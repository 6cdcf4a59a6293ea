"""`dramatiq tests.acceptance.faults.unlocked_actors`: the worker with the lock clause taken out of its claim.

What a row lock gives is a hint: on CockroachDB it may be lost. Exactness must come from the UPDATE alone.
"""

from sqlalchemy import text

from app.executions.claiming import claim

assert "FOR UPDATE SKIP LOCKED" in claim.CLAIM.text
claim.CLAIM = text(claim.CLAIM.text.replace("FOR UPDATE SKIP LOCKED", ""))

from actors import broker  # noqa: E402

__all__ = ["broker"]
