"""Rotation of the key that encrypts secrets, in the hardest order: the API first, one worker last.

Workers then meet secrets that the API encrypted with a key that they do not have yet.
"""

import signal
from collections.abc import Iterable, Iterator

from cryptography.fernet import Fernet

from app.dev.process.child import ChildError
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.verify.faults.supervisor import Supervisor
from app.dev.verify.workload import Workload

KEY = "TE_SECRET_ENCRYPTION_KEY"


def rotation_steps(stack: Stack, workload: Workload, supervisor: Supervisor) -> Iterator[int]:
    """Execute one step of a rotation before each yield; yield the number of complete rotations."""

    def restart(names: Iterable[str], key: str) -> None:
        for name in names:
            supervisor.expect_end(name)
            child = stack.process(name)
            child.update_env({KEY: key})
            if child.is_running:
                child.send(signal.SIGTERM)

    rotations = 0
    while True:
        new = Fernet.generate_key().decode()
        both = stack.env[KEY] = f"{new},{stack.env[KEY]}"
        web, *others = sorted(stack.names, key="web".__ne__)
        restart([web], both)
        yield rotations
        workload.write_secret()
        restart(others[: len(others) // 2], both)
        yield rotations
        restart(others[len(others) // 2 :], both)
        yield rotations
        while not _encrypt_again(stack):
            yield rotations
        stack.env[KEY] = new
        restart(stack.names, new)
        rotations += 1
        yield rotations


def _encrypt_again(stack: Stack) -> bool:
    """Encrypt the stored secrets with the new key; false if another fault prevented it."""
    try:
        stack.run(programs.ROTATE_SECRETS)
    except ChildError:
        return False
    return True
