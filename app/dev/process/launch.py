"""Launcher that replaces itself by a program that dies with its parent; run as `python -I -S launch.py ...`.

A `preexec_fn` would fork a process with threads, which Python 3.12 warns about.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, death_signal: int, uid: int, gid: int, program: list[str]) -> None:
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: a change of credentials clears the setting.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the line above took effect
        sys.exit(1)
    os.execvp(program[0], program)


if __name__ == "__main__":
    _parent, _death_signal, _uid, _gid = (int(word) for word in sys.argv[1:5])
    main(_parent, _death_signal, _uid, _gid, sys.argv[5:])
