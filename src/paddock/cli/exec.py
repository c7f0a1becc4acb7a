"""`paddock exec`: a command in a detached sandbox, its streams passed through."""

from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.errand import Errand, on_terminal, reported, streamed, terminal_type
from paddock.cli.order import Env, Quiet, Timeout, environment, seconds, size
from paddock.config import MAX_OUTPUT, setting
from paddock.errors import ConfigError
from paddock.sandbox import Sandbox

Name = Annotated[
    str, typer.Argument(metavar="SANDBOX", help="The name or id of a detached sandbox.", show_default=False)
]


def execute(
    sandbox: Name,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND", help="A text for the shell, or a program and its arguments.", show_default=False
        ),
    ],
    timeout: Timeout = None,
    env: Env = None,
    workdir: Annotated[
        str | None, typer.Option("--workdir", "-w", metavar="PATH", help="Where the command starts, inside.")
    ] = None,
    max_output: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --json: how much of each stream is kept, such as 64k.")
    ] = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command this terminal.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, and nothing before.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a command in a detached sandbox.

    It is as with `paddock run`: one word is a text for the shell, streams are passed through, the exit code is that of the
    command. The command ends with this program; the sandbox goes on.

    Examples:

    \b
      paddock exec web ls -l
      paddock exec web 'ps aux | grep python'
      paddock exec --tty web bash
    """
    with errors_told(as_json):
        if as_json and tty:
            raise ConfigError("--json and --tty contradict each other.", hint="Give one of them.")
        command = command[command[0] == "--" :] or command  # as behind the options of `paddock run`
        limit = setting("timeout").value if timeout is None else seconds(timeout, "--timeout")
        terminal = {"TERM": terminal_type()} if tty else {}
        errand = Errand(
            Sandbox.connect(sandbox),
            command[0] if len(command) == 1 else command,
            limit,
            quiet,
            terminal | environment(env or ()),
            workdir,
        )
        if as_json:
            code = wait_for(reported(errand, MAX_OUTPUT if max_output is None else size(max_output)))
        elif tty:
            code = wait_for(on_terminal(errand, hint="Leave out --tty."))
        else:
            code = wait_for(streamed(errand))
        raise typer.Exit(code)
