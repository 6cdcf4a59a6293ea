"""`python -m app.dev demo|serve`."""

import argparse
import sys

from app.dev.interrupt import catch_signals
from app.dev.terminal import Terminal

_COMMANDS = ["demo", "serve"]


def main() -> int:
    """Run a command and return its exit status; a failure is a message, not a traceback."""
    catch_signals()
    terminal = Terminal()
    try:
        return _run(_command(), terminal)
    except KeyboardInterrupt:
        terminal.line("\n  interrupted; everything that was started is stopped")
        return 130


def _command() -> str:
    parser = argparse.ArgumentParser(prog="python -m app.dev", description="The development stack of Task Executor.")
    parser.add_argument("command", choices=_COMMANDS, help="demo: run jobs and show them; serve: only run the stack")
    return str(parser.parse_args().command)


def _run(name: str, terminal: Terminal) -> int:
    # Imported here: it takes a moment, in which Ctrl-C may come.
    from app.dev.demo import run  # noqa: PLC0415
    from app.dev.process.child import ChildError  # noqa: PLC0415
    from app.dev.serve import serve  # noqa: PLC0415
    from app.dev.stack.client import ApiError  # noqa: PLC0415

    try:
        return (run if name == "demo" else serve)(terminal)
    except (ChildError, ApiError, OSError) as error:  # the last for a directory that is somebody else's
        terminal.line(f"\n{terminal.red('It did not work:')} {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
