"""Talking with an assistant, on a terminal or in a pipe."""

import asyncio
import os
import shlex
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from paddock.asking import answer, given
from paddock.assistants import Assistant, Assistants, Upload
from paddock.assistants.prompts import filled, moment, variables_for
from paddock.cli import stdout
from paddock.cli.acting import exit_code, first_ctrl_c, watched
from paddock.cli.editing import Editor, Interrupted, editor
from paddock.cli.ending import FAILED, say, tell
from paddock.cli.files import listed
from paddock.cli.telling import Written, inert, short
from paddock.cli.views import View, fitting
from paddock.consent import asked_at_terminal
from paddock.errors import AgentError, ConfigError, ConflictError, SandboxError, visible
from paddock.finishing import in_thread
from paddock.manager import Manager
from paddock.runners import Done, Event, Failed, Progress, Text
from paddock.types.consent import ApprovalRequest

_PROMPT = "> "
_NEW_LINE = "\n"
_GAP = "\n\n"
_SECONDS_TO_END = 5.0
_LONGEST = 4095
"""Bytes of a line: a terminal drops what is typed or pasted beyond that, and nobody hears of it."""
_TOO_LONG = (
    "this line is longer than a terminal can give, and was not sent: /attach a file, or use `paddock assistant run -`"
)
_HELP = """/attach FILE   send a file along with the next message
/files         list the files of this conversation
/new           forget what was said; files stay
/exit          end the conversation, as Ctrl-D does"""


@dataclass(slots=True)
class Talk:
    """Who talks with whom."""

    assistant: Assistant
    user: str
    chat: str
    variables: dict[str, str]
    quiet: bool = False
    as_json: bool = False
    uploads: list[Upload] = field(default_factory=list)
    view: View | None = None
    question: asyncio.Lock = field(default_factory=asyncio.Lock)

    def upload(self, path: Path) -> Upload:
        """A file, if the assistant may be sent as much."""
        return Upload.read(path, self.assistant.attachments.max_bytes)

    async def asked(self, request: ApprovalRequest) -> bool:
        """Whether somebody at the terminal agrees. What moves there makes way for the question, and others wait for it."""
        async with self.question:
            if self.view is not None:
                self.view.close()
            return await asked_at_terminal(request)


async def once(talk: Talk, text: str, files: Iterable[Path], *, fresh: bool) -> int:
    """One message; the exit code."""
    talk.uploads = [talk.upload(path) for path in files]
    async with _service(talk, fresh=fresh) as (service, _):
        return exit_code(await _said(service, talk, text))


async def converse(talk: Talk, *, fresh: bool) -> int:
    """Messages until nobody has any; the exit code is that of the last."""
    code = 0
    async with _service(talk, fresh=fresh) as (service, manager):
        _greet(talk)
        async for line in _lines():
            if line.startswith("/"):
                if await _command(line, talk, service, manager):
                    return code
            elif line:
                try:
                    code = exit_code(await _said(service, talk, line))
                except SandboxError as error:
                    tell(error, as_json=False)
                    code = FAILED
    return code


@asynccontextmanager
async def _service(talk: Talk, *, fresh: bool) -> AsyncIterator[tuple[Assistants, Manager | None]]:
    manager = await _opened() if talk.assistant.has_sandbox else None
    try:
        async with Assistants(talk.assistant, manager=manager, approve=talk.asked) as service:
            if fresh:
                await service.forget(user=talk.user, chat=talk.chat, assistant=talk.assistant.name)
            yield service, manager
    finally:
        if manager is not None:
            await manager.close()


async def _opened() -> Manager:
    manager = Manager()
    try:
        await manager.open()
    except ConflictError as error:
        error.hint = "Wait for its end, or use another state directory: set PADDOCK_STATE."
        raise
    return manager


async def _said(service: Assistants, talk: Talk, text: str) -> Done | Failed:
    uploads, talk.uploads = talk.uploads, []
    content: Any = [{"type": "text", "text": text}, *(upload.part for upload in uploads)] if uploads else text
    run = service.request(
        talk.assistant,
        [{"role": "user", "content": content}],
        user=talk.user,
        chat=talk.chat,
        variables=talk.variables,
    )
    with fitting(talk.assistant.name, as_json=talk.as_json, quiet=talk.quiet) as view:
        talk.view = view
        end = await watched(run, view if talk.as_json else _WithReply(view))
    if isinstance(end, Failed) and not talk.as_json:
        tell(_reason(end.error), as_json=False)
    return end


def _reason(error: AgentError) -> SandboxError:
    """What users are not told of this host: here the user is who runs it."""
    cause = error.__cause__
    return cause if error.kind == "sandbox" and isinstance(cause, SandboxError) else error


class _WithReply:
    """A view that also shows a reply which is another than what the agent said: a hook may have put it in its place.

    Whoever is not at a terminal gets the reply alone, when it is known.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._said = ""
        screen = stdout.own()
        self._held = screen is None or not screen.isatty()
        self.ended = view.ended
        self.interrupting = view.interrupting
        self.close = view.close

    async def show(self, event: Event) -> None:
        """Something happened."""
        if isinstance(event, Progress) and event.state == "failed":  # the end says why
            return
        if isinstance(event, Text) and event.parent is None:
            self._said += event.text
            if self._held:
                return
        if rest := self._rest(event):
            await self._view.show(Text(rest))
        await self._view.show(event)

    def _rest(self, event: Event) -> str:
        """What is still to be shown in the end."""
        if not isinstance(event, (Done, Failed)) or not self._said.strip():
            return ""
        is_other = isinstance(event, Done) and not self._said.rstrip().endswith(event.text.rstrip())
        if self._held:
            return event.text if isinstance(event, Done) and is_other else self._said
        gap = _GAP[len(self._said) - len(self._said.rstrip(_NEW_LINE)) :]
        return f"{gap}{event.text}" if isinstance(event, Done) and is_other else ""


def _greet(talk: Talk) -> None:
    assistant = talk.assistant
    if talk.quiet or not _is_terminal():
        return
    known = {
        "user": visible(talk.user),
        "chat": visible(talk.chat),
        "assistant": assistant.name,
        "locale": "",
        "workdir": "",
    }
    if assistant.prompts.greeting:
        names = variables_for(assistant.variables, talk.variables, {**known, **moment()})
        say(inert(filled(assistant.prompts.greeting, names)).rstrip())
    else:
        say(f"{visible(assistant.name)}: {visible(assistant.description) or 'ready'}")
    typer.echo("(/help says what there is beside talking; Ctrl-D ends it)", err=True)


async def _command(line: str, talk: Talk, service: Assistants, manager: Manager | None) -> bool:
    """Something that is not for the assistant; whether it is the end."""
    word, _, rest = line.partition(" ")
    if word in ("/exit", "/quit"):
        return True
    try:
        if word == "/attach":
            talk.uploads.append(talk.upload(_chosen(rest.strip())))
            typer.echo(f"{talk.uploads[-1].told()} goes with the next message", err=True)
        elif word == "/new":
            await service.forget(user=talk.user, chat=talk.chat, assistant=talk.assistant.name)
            typer.echo("what was said is forgotten", err=True)
        elif word == "/files":
            await _show_files(talk, manager)
        else:
            if word != "/help":
                typer.echo(f"there is no {short(word)} here, only:", err=True)
            typer.echo(_HELP, err=True)
    except SandboxError as error:
        tell(error, as_json=False)
    return False


def _chosen(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        return path if os.path.lexists(path) else Path(_unquoted(name)).expanduser()
    except RuntimeError:
        raise ConfigError(f"Nobody knows whose home '{visible(name)}' is in.", hint="Give the whole path.") from None


def _unquoted(name: str) -> str:
    """What a shell would take it for: so terminals write the name of a file that is dropped on them."""
    try:
        words = shlex.split(name)
    except ValueError:  # a quote that is not closed
        return name
    return words[0] if len(words) == 1 else name


async def _show_files(talk: Talk, manager: Manager | None) -> None:
    name = talk.assistant.sandbox.workspace
    found = [] if manager is None else await manager.workspaces(talk.user)
    path = next((one.path for one in found if (one.name == name if name else one.chat == talk.chat)), None)
    if path is None:
        typer.echo("there are none yet", err=True)
        return
    typer.echo(f"in {visible(path)}:", err=True)
    files = await in_thread(listed, path)
    for file in files.names:
        say(visible(file))
    if not files.complete:
        typer.echo("and more, which are not listed", err=True)


async def _lines() -> AsyncIterator[str]:
    """What is typed, or what comes in a pipe."""
    if sys.stdin is None:
        return
    if not _is_terminal():
        async for one in _piped(sys.stdin.fileno()):
            yield one.strip()
        return
    editing, warned = editor(), False
    while True:
        try:
            line = await (_plain(warned) if editing is None else _edited(editing, warned))
        except Interrupted:
            warned = True
            typer.echo("\n(Ctrl-C once more, or Ctrl-D, ends it)", err=True)
            continue
        except asyncio.CancelledError:
            say("")  # what comes next on the terminal begins a line
            raise
        if line is None:
            say("")
            return
        warned = False
        yield line.strip()


async def _edited(editing: Editor, warned: bool) -> str | None:
    """A message. After a warning Ctrl-C is what it usually is."""
    say("")
    try:
        return await editing.line(_PROMPT)
    except Interrupted:
        if warned:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(_SECONDS_TO_END)
        raise


async def _plain(warned: bool) -> str | None:
    """The same, of one line and as the terminal gives it."""
    line = await (_prompted() if warned else _typed())
    if line is not None and len(line.encode()) >= _LONGEST:
        typer.echo(_TOO_LONG, err=True)
        return ""
    return line


async def _typed() -> str | None:
    """A line. The first Ctrl-C takes back what was typed: it may have been meant for an assistant that was just done."""
    typing = asyncio.ensure_future(_prompted())
    try:
        async with first_ctrl_c(typing.cancel):
            await asyncio.wait([typing])
    finally:
        typing.cancel()
    if typing.cancelled():
        raise Interrupted
    return typing.result()


async def _prompted() -> str | None:
    screen = stdout.own()
    if screen is not None:
        screen.write(f"\n{_PROMPT}")
        screen.flush()
    return await answer(sys.stdin.fileno())


async def _piped(descriptor: int) -> AsyncIterator[str]:
    """The lines of a pipe or a file, as they come: a signal need not wait for the next."""
    decoder, written = getincrementaldecoder("utf-8")("replace"), Written()
    while data := await given(descriptor):
        for line in written.feed(decoder.decode(data)):
            yield line
    yield written.rest + decoder.decode(b"", final=True)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
