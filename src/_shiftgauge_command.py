"""Where the `shiftgauge` command begins: outside the package, so that Ctrl-C during its imports is one line too."""

# The interpreter has all of these already. The public `signal` would import `enum` and more first, and an interrupt
# while that goes on would still be a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys


def main() -> None:
    """Run the command; an interrupt before it has begun leaves as one during its work does."""
    listen()
    from shiftgauge.cli.app import main as run

    run()


def listen() -> None:
    """Let an interrupt be one line from now on, until the command takes over."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job may ignore it
        signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    """Nothing has been read or written yet: leave at once, past imports that would turn it into another error."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"shiftgauge: interrupted\n")
    os._exit(130)
