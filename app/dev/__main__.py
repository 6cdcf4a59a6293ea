"""`python -m app.dev demo|serve`."""

import argparse
import sys
from importlib.util import find_spec

from app.dev.interrupt import catch_signals

_COMMANDS = ["demo", "serve"]


def main() -> int:
    """Run a command and return its exit status; a failure is a message, not a traceback."""
    catch_signals()
    try:
        return _run(_command())
    except KeyboardInterrupt:
        print("\n  interrupted; everything that was started is stopped")
        return 130


def _command() -> str:
    parser = argparse.ArgumentParser(prog="python -m app.dev", description="The development stack of Task Executor.")
    parser.add_argument("command", choices=_COMMANDS, help="demo: run jobs and show them; serve: only run the stack")
    return str(parser.parse_args().command)


def _run(name: str) -> int:
    if find_spec("app.dev.demo") is None:
        print("the demo and the development stack need a checkout of the repository, not its wheel", file=sys.stderr)
        return 2
    # Imported here: it takes a moment, in which Ctrl-C may come.
    from app.dev.demo.scenario import run_demo  # noqa: PLC0415
    from app.dev.demo.serve import serve  # noqa: PLC0415
    from app.dev.process.child import ChildError  # noqa: PLC0415
    from app.dev.stack.stack_client import ApiError  # noqa: PLC0415
    from app.dev.terminal import Terminal  # noqa: PLC0415

    terminal = Terminal()
    try:
        return (run_demo if name == "demo" else serve)(terminal)
    except (ChildError, ApiError, OSError) as error:  # the last for a directory that is somebody else's
        terminal.line(("\nIt did not work:", "red"), f" {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
