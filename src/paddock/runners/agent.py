"""What the file of one agent has to say: how its program is started, and what its lines mean."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from paddock.runners.events import Done, Event, Failed
from paddock.runners.messages import Conversation
from paddock.runners.options import Options
from paddock.runners.programs import Program

_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Inside:
    """What the agent's program finds in the sandbox."""

    home: str
    """Its home, as commands see it."""
    workdir: str
    """Where it works, as commands see it."""
    program: tuple[str, ...]
    bridge: tuple[str, ...] = ()
    """The command that speaks MCP for the granted tools; empty if none are granted."""
    url: str | None = None
    """Where the gateway is; None without one."""
    model: str | None = None
    """What the connector or the options name."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: what is asked, where, and how."""

    conversation: Conversation
    options: Options
    inside: Inside
    session: str
    """A UUID for the conversation, always the same for the same one."""
    resume: str | None = None
    """The agent's own name of a conversation that goes on; its program knows what was said before."""

    @property
    def prompt(self) -> str:
        """What it is told now."""
        return self.conversation.prompt if self.resume else self.conversation.whole()

    @property
    def no_command(self) -> str:
        """The same for a program to which a slash at the very beginning is a command of its own: behind a line break."""
        return f"\n{self.prompt}" if self.prompt.startswith("/") else self.prompt

    @property
    def no_mark(self) -> str:
        """The same for a program that takes away a mark of the byte order at the very beginning: behind another one."""
        return f"{_MARK}{self.prompt}" if self.prompt.startswith(_MARK) else self.prompt

    @property
    def system(self) -> str:
        """What is added to its system prompt."""
        return "\n\n".join(text for text in (self.options.system, self.conversation.system) if text)


@dataclass(frozen=True, slots=True)
class Launch:
    """How the program is started for a task."""

    argv: tuple[str, ...]
    stdin: bytes
    """All that it is given, or the first of it if its reader talks."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Written before, by their paths below the home."""


@dataclass(frozen=True, slots=True)
class Tell:
    """A line of JSON for a program that is talked with."""

    line: Mapping[str, Any]


class Reader(Protocol):
    """What the lines of one run mean. It keeps state, and does nothing else."""

    def feed(self, line: Mapping[str, Any]) -> Iterable[Event | Tell]:
        """What a line of JSON tells, and what is to be answered. `Done` or `Failed` is the last."""
        ...

    def finish(self, exit_code: int, stderr: str) -> Done | Failed:
        """The program ended before any line said so."""
        ...


@runtime_checkable
class Talker(Reader, Protocol):
    """A reader that answers: the program's standard input stays open until its result is there."""

    def cancel(self) -> Iterable[Tell]:
        """What to say to a program that is to stop, instead of a signal."""
        ...


class Agent(Protocol):
    """One agent."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What people call it."""
    command: ClassVar[tuple[str, ...]]
    """How its program is called where it is on the PATH, as in an image."""
    needs_models: ClassVar[bool]
    """Whether it asks the gateway."""
    install: ClassVar[str]
    """A command that gets it."""
    skills: ClassVar[str | None]
    """Where it looks for skills, below the home."""
    sessions: ClassVar[tuple[str, ...]]
    """What it remembers conversations by, below the home."""

    def find(self) -> Program | None:
        """Its program on this host. Nothing is run."""
        ...

    def check(self, options: Options) -> None:
        """Return if it has a word for all of them; else a `ConfigError` that names the one that it has none for."""
        ...

    def launch(self, task: Task) -> Launch:
        """How to start it."""
        ...

    def reader(self, task: Task) -> Reader:
        """Who understands what it prints."""
        ...
