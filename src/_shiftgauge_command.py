"""The entry point of the command: outside the package, so that Ctrl-C during its imports prints one line too."""

# The interpreter has imported all of these. The public `signal` imports `enum` and more, and Ctrl-C meanwhile would
# print a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys


def main() -> None:
    """Run the command."""
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a background job may ignore it
    if listens:
        signal.signal(signal.SIGINT, _exit)
    from shiftgauge.cli.app import main as run

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _exit(*_: object) -> None:
    """Exit at once: nothing was read or written yet, and an import could turn an exception into another."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"shiftgauge: interrupted\n")
    os._exit(130)
