"""The effects of ends: a new one is a module with an `Effect`, and a line here."""

from app.outbox.callbacks import CALLBACKS
from app.outbox.dead_letters import DEAD_LETTERS
from app.outbox.effect import Effect
from app.outbox.notifications import NOTIFICATIONS

EFFECTS: tuple[Effect, ...] = (DEAD_LETTERS, CALLBACKS, NOTIFICATIONS)
