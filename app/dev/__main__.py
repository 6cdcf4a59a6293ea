"""`python -m app.dev demo|serve`."""

import argparse
import sys

from app.dev.api_client import ApiError
from app.dev.child import ChildError
from app.dev.demo import run
from app.dev.interrupt import catch_signals
from app.dev.serve import serve
from app.dev.terminal import Terminal

_COMMANDS = {"demo": run, "serve": serve}


def main() -> int:
    """Run a command and return its exit status; a failure is a message, not a traceback."""
    parser = argparse.ArgumentParser(prog="python -m app.dev", description="The development stack of Task Executor.")
    parser.add_argument("command", choices=_COMMANDS, help="demo: run jobs and show them; serve: only run the stack")
    command = _COMMANDS[parser.parse_args().command]
    terminal = Terminal()
    catch_signals()
    try:
        return command(terminal)
    except KeyboardInterrupt:
        terminal.line("\n  interrupted; everything that was started is stopped")
        return 130
    except (ChildError, ApiError) as error:
        terminal.line(f"\n{terminal.red('It did not work:')} {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
