"""The command line: one module for each command, and nothing that the library could do for everybody."""

import signal
import sys
from typing import NoReturn


def main() -> None:
    """Run the command line, or say how to get it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        from paddock.cli.app import program

        app = program(*sys.argv[1:2])
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        from paddock.extras import how_to_get

        sys.exit(f"The command line needs {error.name}: {how_to_get('cli')}")
    app(prog_name="paddock")


def _end(*_: object) -> NoReturn:
    """The first Ctrl-C ends the program, and the next ones do not interrupt that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
