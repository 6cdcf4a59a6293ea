"""Story of the pictures: six hours of the shop, during which a faulty version of an endpoint fails for a while.

The clock of the database is set back when the stack starts, and moved through the story, so that it ends now.
"""

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from app.dev.stack.stack_client import Api
from app.dev.testing.movable_stack import MovableStack
from app.features.control.chores import take_sample
from app.features.rollups.rollup_slots import advance
from app.kernel.db import Database
from tests.browser.pictures.shop import BROKEN, CHARGES, FLAKY, IMAGES, MAILS, PATHS, TEXTS, endpoint_of, open_shop

LENGTH = timedelta(hours=6)
STEP = timedelta(minutes=5)
STEPS = LENGTH // STEP
SEED = 28
FAULTS = range(46, 50)  # steps with the faulty version
FLAKY_STEP = 64  # with a payment that needs three attempts
PAUSED_STEP = 68
_SECONDS = 300.0  # of real time for one move of the clock
_WEIGHTS = {MAILS: 20, CHARGES: 12, IMAGES: 8, TEXTS: 1}


class Story:
    """A run of the shop; the same seed makes the same jobs."""

    def __init__(self, stack: MovableStack, database: Database, api: Api, addresses: Mapping[str, str]) -> None:
        self._stack, self._database, self._api, self._addresses = stack, database, api, addresses
        self._random = random.Random(SEED)
        self._orders = count(1001)
        self.flaky_job = ""
        """Job of the payment that needs three attempts."""

    def run(self) -> None:
        """Live through all steps; the clock of the database then is the clock of the machine."""
        open_shop(self._api, self._addresses)
        for step in range(STEPS):
            self._change(step)
            self._api.post("/jobs/batch", {"jobs": self._orders_of(step)})
            self._stack.advance(STEP / timedelta(milliseconds=1), _SECONDS)
            self._count()
        behind = datetime.now(UTC) - datetime.fromisoformat(self._stack.now())
        self._stack.advance(max(0, behind / timedelta(milliseconds=1)), _SECONDS)
        self._count()

    def _count(self) -> None:
        """Do the chores of the charts, which the scheduler runs by the machine's time."""
        take_sample(self._database, 1)
        list(advance(self._database, len(PATHS)))

    def _change(self, step: int) -> None:
        """Make the changes of a step: a faulty version and its repair, a flaky receiver, a pause."""
        if step == FAULTS.start:
            self._send_charges_to(BROKEN)
        elif step in {FAULTS.stop, FLAKY_STEP + 1}:
            self._send_charges_to(PATHS[CHARGES])
        elif step == FLAKY_STEP:
            self._send_charges_to(FLAKY)
            self.flaky_job = self._api.post("/jobs", self._job(CHARGES, 0.0))["job_id"]
        elif step == PAUSED_STEP:
            self._api.post(f"/endpoints/{IMAGES}/pause")

    def _send_charges_to(self, path: str) -> None:
        body = endpoint_of(CHARGES, self._addresses[CHARGES], path).body
        self._api.put(f"/endpoints/{CHARGES}", {name: value for name, value in body.items() if name != "name"})

    def _orders_of(self, step: int) -> list[dict[str, Any]]:
        """Return the jobs of a step, more of them at noon of the story, at random instants."""
        number = round(12 + 10 * math.sin(math.pi * step / STEPS) + self._random.random() * 4)
        names = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=number)
        jobs = [self._job(name, self._random.random() * STEP.total_seconds()) for name in names]
        return [job for job in jobs if not (step == FLAKY_STEP and job["endpoint"] == CHARGES)]

    def _job(self, endpoint: str, delay: float) -> dict[str, Any]:
        order = f"order-{next(self._orders)}"
        return {
            "endpoint": endpoint,
            "trigger": "DELAYED",
            "delay": f"{round(delay * 1000)}ms",
            "idempotency_key": order,
            "labels": {"team": "shop"},
            "input": {"order": order},
        }
