"""The command line: one module for each command, and nothing that the library could do for everybody."""

import sys


def main() -> None:
    """Run the command line, or say how to get it."""
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
