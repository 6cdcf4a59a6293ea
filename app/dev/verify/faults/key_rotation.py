"""Rotation of the key that encrypts secrets, in the order that asks most: the API first, one worker last.

A secret that the API writes with the new key is then one that a worker cannot read yet.
"""

import signal
from collections.abc import Iterator

from cryptography.fernet import Fernet

from app.dev.process.child import ChildError
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.verify.faults.fault_plan import Act, Fault
from app.dev.verify.faults.injector import Do, Injector
from app.dev.verify.workload import Workload

KEY = "TE_SECRET_ENCRYPTION_KEY"


class RotationFaults:
    """Steps of rotations, one after the other, one for each fault."""

    def __init__(self, stack: Stack, workload: Workload, injector: Injector) -> None:
        self._stack = stack
        self._workload = workload
        self._injector = injector
        self._steps = self._rotations()
        self.rotations = 0

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        return {Act.ROTATE: self._next}

    def _next(self, _fault: Fault) -> None:
        next(self._steps)

    def _rotations(self) -> Iterator[None]:
        while True:
            old, new = self._stack.env[KEY], Fernet.generate_key().decode()
            both = f"{new},{old}"
            self._stack.env[KEY] = both
            web, *others = sorted(self._stack.names, key="web".__ne__)
            self._restart_with(both, [web])
            yield
            self._workload.write_secret()
            self._restart_with(both, others[: len(others) // 2])
            yield
            self._restart_with(both, others[len(others) // 2 :])
            yield
            while not self._are_secrets_rotated():
                yield
            self._stack.env[KEY] = new
            self._restart_with(new, self._stack.names)
            self.rotations += 1
            yield

    def _are_secrets_rotated(self) -> bool:
        """Encrypt what is stored with the new key; false when another fault hindered it."""
        try:
            self._stack.run(programs.ROTATE_SECRETS)
        except ChildError:
            return False
        return True

    def _restart_with(self, key: str, names: list[str]) -> None:
        for name in names:
            self._injector.expect_end(name)
            child = self._stack.process(name)
            child.update_env({KEY: key})
            if child.is_running:
                child.send(signal.SIGTERM)
