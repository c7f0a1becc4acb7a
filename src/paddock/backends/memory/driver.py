"""The spec and the driver of `memory`."""

import itertools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from paddock.backends.memory.commands import CommandFunction, FunctionRun, not_found
from paddock.dirs.memory import MemoryDir, Quota
from paddock.dirs.protocol import Dir
from paddock.driver import Capabilities, Plan, Running, Spawn
from paddock.errors import ConfigError, NotFoundError, SandboxError, UnsupportedError
from paddock.types import Guarantee, Isolation, ProcessInfo

_LONGEST = 128 << 10
"""What Linux takes for one word, with its end. Splitting takes time by the square of it."""
_NOTHING_RUNS = Guarantee(True, "there are only the Python functions that you registered")


@dataclass(frozen=True, slots=True)
class Memory:
    """Files are Python objects and commands are Python functions, called by the name they are registered under."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities(
        commands=True,
        view_commands=True,
        limits=frozenset({"disk", "file_size"}),
        host_effects=False,
    )

    commands: Mapping[str, CommandFunction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isinstance(name, str) and callable(function) for name, function in self.commands.items()):
            raise ConfigError("Memory(commands=…) maps names to functions.", hint='Such as {"pytest": fake_pytest}.')

    async def launch(self, plan: Plan) -> "MemoryDriver":
        """An empty tree for each mount."""
        return MemoryDriver(plan, dict(self.commands))


class MemoryDriver:
    """One sandbox in memory."""

    error: SandboxError | None = None

    def __init__(self, plan: Plan, commands: dict[str, CommandFunction]) -> None:
        limits = plan.limits
        quota = Quota(_bytes(limits.disk), _bytes(limits.file_size))
        self._limits = {name: Guarantee(True, "counted") for name in limits.asked() & Memory.capabilities.limits}
        self._dirs = {mount.target: MemoryDir(quota) for mount in plan.mounts}
        self._commands = commands
        self._pids = itertools.count(1)
        self._running: dict[int, FunctionRun] = {}

    @property
    def isolation(self) -> Isolation:
        return Isolation(
            files=Guarantee(True, "they exist only in this process"),
            processes=_NOTHING_RUNS,
            network=_NOTHING_RUNS,
            syscalls=_NOTHING_RUNS,
            limits=dict(self._limits),
        )

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def dir(self, target: str) -> Dir:
        return self._dirs[target]

    def host_path(self, target: str) -> str | None:
        return None

    async def spawn(self, command: Spawn) -> Running:
        argv = _split(command)
        function = self._commands.get(argv[0]) or not_found(sorted(self._commands))
        run = FunctionRun(next(self._pids), function, argv, command)
        self._running[run.pid] = run
        run.when_done(lambda: self._running.pop(run.pid, None))
        return run

    async def processes(self) -> list[ProcessInfo]:
        return [run.info for run in self._running.values() if run.exit_code is None]

    async def attach(self, pid: int) -> Running:
        run = self._running.get(pid)
        if run is None or run.exit_code is not None:
            raise NotFoundError(f"No command with pid {pid} runs here.", hint="processes() lists those that do.")
        return run

    async def close(self) -> None:
        for run in list(self._running.values()):
            await run.kill()
        for directory in self._dirs.values():
            directory.close()


def _split(command: Spawn) -> tuple[str, ...]:
    """The words of a command; a text is split as a shell would, but there is no shell to do more."""
    if not command.shell:
        return command.argv
    text = command.argv[0]
    if len(text.encode("utf-8", "surrogateescape")) >= _LONGEST:
        raise ConfigError("The command is too long.", hint="Use stdin or a file.")
    try:
        operators = [
            word for word in shlex.shlex(text, posix=False, punctuation_chars=True) if set(word) <= set("();<>|&")
        ]
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"The command cannot be read: {error}.", hint="Close every quote.") from None
    if operators or not words:
        raise UnsupportedError(
            f"The backend 'memory' has no shell for '{operators[0] if operators else text}'.",
            backend="memory",
            capability="shell",
            hint="Give one command with its arguments.",
        )
    return words


def _bytes(size: int | str | None) -> int | None:
    return None if size is None else int(size)
