"""Run the receiver as a process: `python -m app.dev.receiver --port N`."""

import argparse
import signal

from app.dev.receiver import Receiver


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.dev.receiver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, lets the system choose one")
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args()
    # Blocked before the server's thread starts, which inherits the mask: only sigwait receives the signals.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with Receiver(port=options.port, host=options.host) as receiver:
        print(receiver.base_url, flush=True)
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
