"""`paddock agent`: a coding agent in a sandbox, on a project that is not written to before somebody has looked."""

import math
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.granting import Servers, Tools
from paddock.cli.network import Allowed, Attached, Private, network, secrets
from paddock.cli.order import (
    Backend,
    Cache,
    Connector,
    Cpu,
    Env,
    Expose,
    Image,
    Memory,
    Mounts,
    Order,
    Quiet,
    Root,
    Runtime,
    Workdir,
    Workspace,
    limits,
    seconds,
)
from paddock.driver import HOME
from paddock.errors import ConfigError, NotFoundError
from paddock.runners import Options, Program, Sessions, find_agent
from paddock.runners.agent import Agent, Inside, Task
from paddock.runners.keys import given
from paddock.runners.messages import conversation
from paddock.runners.options import PERMISSIONS, Permission
from paddock.runners.registry import load
from paddock.sandbox import Sandbox

if TYPE_CHECKING:
    from paddock.cli.acting import Job
    from paddock.gateway.connectors import Connector as Way
    from paddock.skills import Skill
    from paddock.types import Mount

_MOST_PROMPT = 10 << 20
_ARGUMENT = re.compile(r"\b(model|permission|max_turns|timeout|patience|system)(?==)")


def agent(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Which agent; `paddock agents` lists them.", show_default=False)
    ],
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="What it is to do. `-`, or none in a pipe: standard input.", show_default=False
        ),
    ] = None,
    review: Annotated[
        bool | None,
        typer.Option(
            "--review/--no-review",
            help="Work on --workspace, or the current directory, without writing to it; ask in the end. "
            "This is so unless a directory is named.",
            show_default=False,
        ),
    ] = None,
    connector: Connector = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Give it the value of this variable of yours as its key, inside. For agents that need that: cursor.",
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--program", metavar="COMMAND", help="How it is called in the sandbox, if it is not to be looked for here."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Ask for this model.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last conversation about this directory.")
    ] = False,
    permission: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help=f"What it may do inside: {', '.join(PERMISSIONS)}. The sandbox holds anyway."
        ),
    ] = "all",
    max_turns: Annotated[int | None, typer.Option(metavar="NUMBER", help="End it after so many turns.")] = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="End it after this: seconds, 90s, 10m, 2h, or none.")
    ] = "1h",
    patience: Annotated[
        str, typer.Option(metavar="TIME", help="End it when nothing has come from the model for this long, or none.")
    ] = "3m",
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="Add this to its system prompt.")] = None,
    system_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same, from a file.", show_default=False)
    ] = None,
    skill: Annotated[
        list[Path] | None,
        typer.Option("--skill", metavar="DIR", help="Teach it this skill, or the skills in this folder."),
    ] = None,
    tool: Tools = None,
    mcp: Servers = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Give it a home of this name, with conversations of its own.")
    ] = None,
    backend: Backend = None,
    workspace: Workspace = None,
    cache: Cache = None,
    root: Root = None,
    mount: Mounts = None,
    image: Image = None,
    runtime: Runtime = None,
    memory: Memory = None,
    cpu: Cpu = None,
    env: Env = None,
    workdir: Workdir = "/workspace",
    allow: Allowed = None,
    private: Private = None,
    secret: Attached = None,
    expose: Expose = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each event.")] = False,
    quiet: Quiet = False,
) -> None:
    """Let a coding agent work in a sandbox, watch it, and decide about what it changed.

    It works on the current directory and does not write to it: when it is done you see what it changed, and choose to
    apply it, to keep it for later, or to discard it. With --workspace alone it writes to that directory as it goes; with
    --no-review alone its workspace is empty and private.

    The agent is found on this host, or is in the --image. It asks models through a connector of your configuration: the
    only one that fits, or --connector; acp asks by none unless you name it. Keys stay outside, and there is no network but
    what you --allow.

    On a terminal you see what it says as it comes, the tools that it uses, the time and the cost. Ctrl-C interrupts it, and
    you still see and decide about what it did until then; Ctrl-C again ends everything at once and keeps that for
    `paddock review`. Elsewhere what it says goes to standard output, and what it does to standard error; with --json there
    is a line for each event.

    A conversation is remembered for 90 days by agent and directory; --resume goes on with the last one.

    The exit code is 0 when it is done, 1 when it failed, 130 after Ctrl-C, 125 for an error of Paddock's own.

    Examples:

    \b
      paddock agent claude 'fix the failing test'
      paddock agent claude --resume 'and now the docs'
      paddock agent claude --connector deepseek --max-turns 20 --system-file style.md 'write the report'
      paddock agent claude --workspace ./site --allow '*.npmjs.org' 'update the dependencies'
      paddock agent claude --permission plan --json 'what does this do?'
      paddock agent claude --skill ./skills --tool ./tools.py:search --memory 4g 'find out why'
      paddock agent cursor --key CURSOR_API_KEY --allow '*.cursor.sh' 'fix it'
      paddock agent acp --program 'opencode acp' --image my-image 'fix it'
      paddock agent scripted 'write notes.txt hello'
    """
    with errors_told(as_json):
        known = load(name)
        found = _program(known, image, program)
        value = _key(known, key)
        if review is None:
            review = workspace is None and root is None
        order = Order(
            [],
            backend,
            workspace,
            cache,
            root,
            mount,
            env,
            workdir,
            image=image,
            runtime=runtime,
            limits=limits(memory, cpu),
            review=review,
            tool=tool,
            mcp=mcp,
            network=network(allow, private),
            secrets=secrets(secret),
        )
        said = read_prompt(prompt)
        text, most, quietest = _system(system, system_file), _time(timeout, "--timeout"), _time(patience, "--patience")
        with _flags_named():
            options = Options(
                model=model,
                system=text,
                permission=cast(Permission, permission),
                max_turns=max_turns,
                timeout=most,
                patience=quietest,
            )
        from paddock.cli.acting import Job
        from paddock.cli.ways import chosen

        by = chosen(known, connector)
        with _flags_named():
            _try(known, found, said, options, by)
        session = _session(name, order.directory)
        remembered = _memory(known, session, profile, resume)
        job = Job(
            order.sandbox(more=_shown(found, order)),
            found,
            said,
            options,
            _skills(skill),
            session,
            remembered,
            profile,
            None if by is None else by.name,
            tuple(expose or ()),
            review,
            as_json,
            quiet,
            value,
        )
        raise typer.Exit(wait_for(_seen(job, known.title)))


async def _seen(job: "Job", title: str) -> int:
    """Shown as it fits where it is shown."""
    from paddock.cli.acting import done
    from paddock.cli.views import fitting

    with fitting(title, as_json=job.as_json, quiet=job.quiet) as view:
        return await done(job, view)


def _program(known: Agent, image: str | None, command: str | None) -> Program:
    """What was named, this host's, or the image's own; what comes with Paddock is in no image."""
    if command is not None:
        return Program(known.name, _words(command))
    if not known.command:
        raise ConfigError(f"{known.name} needs --program COMMAND.", hint="Such as --program 'opencode acp'.")
    found = known.find() if image is not None else find_agent(known.name)
    ours = found is not None and Path(found.found or "/").is_relative_to(Path(__file__).parents[1])
    return found if found is not None and (image is None or ours) else Program(known.name, known.command)


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        words = ()
    if not words:
        raise ConfigError(f"--program={command!r} is no command.", hint="Such as 'opencode acp'.")
    return words


def _key(known: Agent, name: str | None) -> str | None:
    """The value of a variable, and whether the agent takes one."""
    value = None if name is None else os.environ.get(name)
    if name is not None and not value:
        raise ConfigError(f"--key={name!r} is no variable that is set here.", hint="Set it to the agent's key.")
    given(known, value)
    return value


@contextmanager
def _flags_named() -> Iterator[None]:
    """What Python calls by the name of an argument is a flag here."""
    try:
        yield
    except ConfigError as error:
        words = _ARGUMENT.sub(lambda found: f"--{found[0].replace('_', '-')}", error.message, count=1)
        raise ConfigError(words, hint=error.hint) from None


def _try(known: Agent, program: Program, prompt: str, options: Options, by: "Way | None") -> None:
    """What the agent has no word for is said before there is a sandbox."""
    known.check(options)
    url, model = (None, None) if by is None else (by.base_url, by.model)
    inside = Inside(HOME, "/workspace", program.argv, url=url, model=model)
    known.launch(Task(conversation(prompt), options, inside, "none"))


def _shown(program: Program, order: Order) -> "tuple[Mount, ...]":
    """What the sandbox is shown of it, unless it lies in the project and is seen there."""
    return program.mounts if order.directory is None else program.mounts_beside(order.directory)


def read_prompt(given: str | None) -> str:
    """What it is to do, as an argument or from standard input."""
    if given not in (None, "-"):
        return _not_empty(given or "")
    if sys.stdin is None or (given is None and sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is none. Give it as an argument, or by standard input: in a pipe, or with `-`.", param_hint="PROMPT"
        )
    data = sys.stdin.buffer.read(_MOST_PROMPT + 1)
    if len(data) > _MOST_PROMPT:
        raise ConfigError("The prompt is too long.", hint="Put it into a file of the workspace, and name that.")
    return _not_empty(_text(data, "The prompt"))


def _not_empty(prompt: str) -> str:
    if not prompt.strip():
        raise ConfigError("The prompt is empty.", hint="Say what is to be done, as an argument or by standard input.")
    return prompt


def _system(text: str | None, file: Path | None) -> str:
    if text is not None and file is not None:
        raise ConfigError("--system and --system-file contradict each other.", hint="Give one of them.")
    if file is None:
        return text or ""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--system-file={str(file)!r} cannot be read: {error.strerror}.", hint="Name a file."
        ) from None
    return _text(data, "The system prompt")


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is not UTF-8.", hint="Give text.") from None


def _time(text: str, option: str) -> float:
    found = seconds(text, option)
    return math.inf if found is None else found


def _skills(directories: list[Path] | None) -> "list[Skill]":
    if not directories:
        return []
    from paddock.cli.skills import folders
    from paddock.skills import load_skill

    return [load_skill(path) for directory in directories for path in folders(directory)]


def _session(name: str, directory: str | None) -> str:
    """The same for the same agent and directory."""
    return f"{name}\0{os.path.realpath(directory or '.')}"


def _memory(known: Agent, session: str, profile: str | None, resume: bool) -> Sessions:
    if not resume:
        return _Anew()
    if not known.sessions:
        raise ConfigError(
            f"{known.title} cannot --resume: nobody knows what it remembers by.",
            hint="Leave it out, and say again what matters.",
        )
    memory = Sessions()
    if not memory.knows(known.name, session, profile):
        raise NotFoundError(f"{known.name} has had no conversation about this directory.", hint="Leave out --resume.")
    return memory


class _Anew(Sessions):
    """Another conversation, which takes the place of the last when there is something to remember."""

    async def restore(self, sandbox: Sandbox, home: str, agent: str, session: str) -> bool:
        """Nothing is remembered yet."""
        return False
