"""The effects of ends: a new one is a module with an `Effect`, and a line here."""

from app.features.callbacks.handlers import CALLBACKS
from app.features.dead_letters.handlers import DEAD_LETTERS
from app.features.notifications.handlers import NOTIFICATIONS
from app.queue.ending.handler import Effect

EFFECTS: tuple[Effect, ...] = (DEAD_LETTERS, CALLBACKS, NOTIFICATIONS)
